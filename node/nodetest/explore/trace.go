package explore

import (
	"fmt"
	"strings"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

// Replay follows a path and returns what happened in it, a line each, and the violation
// at its end or in what comes after it.
func Replay(sc Scenario, p Path) (lines []string, v *Violation) {
	w := begin(sc)
	w.log = func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, i := range p {
		if cs := w.choices(); int(i) < len(cs) && w.violation == nil {
			w.do(cs[i])
		}
	}
	if w.violation == nil {
		w.goOn()
	}
	return lines, w.violation
}

// Report is what a person wants to know of a failure.
func Report(sc Scenario, r *Result) string {
	lines, v := Replay(sc, r.Path)
	if v == nil {
		return fmt.Sprintf("%s: %s, but the path %v shows nothing of it", sc.Name, r.Violation.Text, r.Path)
	}
	command := "go test ./node/nodetest/explore -run TestReplay -v -scenario=" + sc.Name
	if sc.Skip != "" {
		command += " -skip='" + string(sc.Skip) + "'"
	}
	if name := sc.faultNames(); name != "" {
		command += " -fault=" + name
	}
	return fmt.Sprintf("%s: %s: %s\n%s\nreplay: %s -path=%v", sc.Name, v.Kind, v.Text, strings.Join(lines, "\n"), command, r.Path)
}

// name shows a choice.
func (w *world) name(c choice) string {
	who := "nobody"
	if c.who >= 0 {
		who = w.names[c.who]
	}
	switch c.act {
	case actDeliver:
		return "arrives:"
	case actLock:
		return who + " asks"
	case actUnlock:
		return who + " gives the lock back"
	case actWake:
		return fmt.Sprintf("time goes on to %v", moment(max(w.now, w.nextWake())))
	case actSleepUntil:
		return who + " sleeps until just before a session or quarantine ends"
	case actSleepPast:
		return who + " sleeps until just after a session or quarantine ends"
	case actOversleep:
		return who + " sleeps until its own deadline"
	case actRestart:
		return who + " restarts with nothing in memory"
	case actCut:
		return who + " is cut off"
	case actHeal:
		return "the cut heals"
	case actLose:
		return "lost: " + describe(c.m)
	case actDouble:
		return "a copy arrives:"
	case actCancel:
		return who + " gives up"
	}
	return "unknown"
}

// describe shows what matters of a message.
func describe(m *node.Message) string {
	text := fmt.Sprintf("%s -> %s  %v", m.From, m.To, m.Type)
	if m.ID.Counter != 0 {
		text += fmt.Sprintf(" %d.%d", m.ID.Incarnation.Start, m.ID.Counter)
	}
	if m.Number != 0 {
		text += fmt.Sprintf(" number %d", m.Number)
	}
	switch m.Type {
	case node.MsgRequest:
		text += fmt.Sprintf(" holding %v", m.Holding)
	case node.MsgValidateReply:
		text += fmt.Sprintf(" state %d", m.State)
	case node.MsgCommit, node.MsgCommitted, node.MsgFloors:
		text += fmt.Sprintf(" token %d ok %v floor %d", m.Token, m.OK, m.Floor)
	case node.MsgNotReady:
		text += " " + m.Reason.String()
	default:
	}
	if m.Type.FromMember() {
		return text + fmt.Sprintf("  (session %d, echo %v, votes %v)", m.Session, moment(m.Echo), m.Vote)
	}
	return text + fmt.Sprintf("  (sent %v)", moment(m.Sent))
}

// faultNames returns the names of the faults, for the flag -fault.
func (sc *Scenario) faultNames() string {
	var names []string
	for _, f := range breakage.All() {
		if sc.Fault.Has(f) {
			names = append(names, f.String())
		}
	}
	return strings.Join(names, ",")
}
