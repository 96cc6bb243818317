package nodetest

import (
	"fmt"
	"strings"

	"github.com/treequorum/dmutex/node"
)

// trace keeps a line for people, if anybody wants it: of the last ones.
func (s *sim) trace(format string, args ...any) {
	if !s.tracing {
		return
	}
	line := fmt.Sprintf("%12s %8.3fT  ", seconds(node.Duration(s.now)), float64(s.now)/float64(s.opt.TTL)) +
		fmt.Sprintf(format, args...)
	if len(s.lines) >= 2*s.keepLines {
		s.lines = append(s.lines[:0], s.lines[len(s.lines)-s.keepLines:]...)
	}
	s.lines = append(s.lines, line)
}

// keepAlive tells the messages that a trace leaves out: they are most of them.
func keepAlive(t node.MessageType) bool { return t == node.MsgKeepAlive || t == node.MsgKeepAliveAck }

// describe shows a message: what matters of its type.
func describe(m *node.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", m.Type)
	if m.Lock != "" {
		fmt.Fprintf(&b, " %s #%d", m.Lock, m.ID.Counter)
	}
	if m.Number != 0 {
		fmt.Fprintf(&b, " number %d", m.Number)
	}
	switch m.Type {
	case node.MsgRequest:
		fmt.Fprintf(&b, " time %d holding %v", m.RequestTime, m.Holding)
	case node.MsgQueued:
		fmt.Fprintf(&b, " ahead %d owner %s holds %v", m.Ahead, m.Owner, m.OwnerHolds)
	case node.MsgValidateReply:
		fmt.Fprintf(&b, " state %d", m.State)
	case node.MsgCommit:
		fmt.Fprintf(&b, " token %d", m.Token)
	case node.MsgCommitted, node.MsgFloors:
		fmt.Fprintf(&b, " token %d ok %v floor %d", m.Token, m.OK, m.Floor)
	case node.MsgNotReady:
		fmt.Fprintf(&b, " %v", m.Reason)
	default:
	}
	if m.Type.FromMember() {
		fmt.Fprintf(&b, " session %d echo %d vote %v", m.Session, m.Echo, m.Vote)
	} else {
		fmt.Fprintf(&b, " sent %d", m.Sent)
	}
	return b.String()
}

// tell shows an event.
func tell(e *node.Event) string {
	switch e.Type {
	case node.EventAcquired:
		return fmt.Sprintf("ACQUIRED call %d %s until %d", e.Call, e.Lock, e.Deadline)
	case node.EventFailed:
		return fmt.Sprintf("FAILED call %d %s failure %d", e.Call, e.Lock, e.Failure)
	case node.EventLost:
		return fmt.Sprintf("LOST call %d %s loss %d", e.Call, e.Lock, e.Loss)
	case node.EventDeadline:
		return fmt.Sprintf("deadline of call %d %s is %d", e.Call, e.Lock, e.Deadline)
	case node.EventToken:
		return fmt.Sprintf("TOKEN call %d %s is %d", e.Call, e.Lock, e.Token)
	case node.EventWaiting:
		return fmt.Sprintf("call %d %s waits behind %d of %s", e.Call, e.Lock, e.Facts.Ahead, e.Facts.Owner)
	case node.EventPeerDiffers:
		return "peer differs: " + e.Peer
	case node.EventPeerUp:
		return "peer up: " + e.Peer
	case node.EventPeerDown:
		return "peer down: " + e.Peer
	case node.EventPeerStarting:
		return "peer starting: " + e.Peer
	case node.EventReplaced:
		return "REPLACED"
	case node.EventRestarted:
		return "takes a higher incarnation"
	case node.EventDropped:
		return "dropped of " + e.Peer + ": " + e.Text
	}
	return "unknown event"
}
