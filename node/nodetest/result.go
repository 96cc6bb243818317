package nodetest

import (
	"fmt"
	"strings"

	"github.com/treequorum/dmutex/node"
)

// Violation is a promise that was broken.
type Violation struct {
	Kind string // the checker: exclusion, revived, told, tokens, served, leftover, driver
	At   node.Duration
	Text string
}

// String shows the violation on one line.
func (v Violation) String() string { return fmt.Sprintf("%s at %s: %s", v.Kind, seconds(v.At), v.Text) }

// Stats count what happened in a run.
type Stats struct {
	Virtual       node.Duration // true time that passed in the cluster
	Events        uint64
	Messages      uint64
	LostMessages  uint64
	Acquired      uint64
	Failed        uint64
	Lost          uint64
	Canceled      uint64
	Tokens        uint64
	TokensExcused uint64 // fell after a majority had lost its memory and wall clocks were wrong
	Replaced      uint64 // stopped because of a higher incarnation of their name
	Rose          uint64 // took a higher incarnation soon after the start
	Faults        [endOfFaultKinds]uint64
	Rules         [node.LastRule + 1]uint64 // how often each rule of the core decided something
	LeftBefore    uint64                    // members that kept a grant of a lost Release until somebody asked
	LongestWait   float64                   // after the faults, in T
	LongestToken  float64                   // the same for a fencing token
}

// Add adds o to s.
func (s *Stats) Add(o Stats) {
	s.Virtual += o.Virtual
	s.Events += o.Events
	s.Messages += o.Messages
	s.LostMessages += o.LostMessages
	s.Acquired += o.Acquired
	s.Failed += o.Failed
	s.Lost += o.Lost
	s.Canceled += o.Canceled
	s.Tokens += o.Tokens
	s.TokensExcused += o.TokensExcused
	s.Replaced += o.Replaced
	s.Rose += o.Rose
	s.LeftBefore += o.LeftBefore
	for i, n := range o.Faults {
		s.Faults[i] += n
	}
	for i, n := range o.Rules {
		s.Rules[i] += n
	}
	s.LongestWait = max(s.LongestWait, o.LongestWait)
	s.LongestToken = max(s.LongestToken, o.LongestToken)
}

// RuleCounts shows how often each rule of package node decided something.
func (s Stats) RuleCounts() string {
	var b strings.Builder
	b.WriteString("rules:")
	for i := 1; i <= node.LastRule; i++ {
		fmt.Fprintf(&b, " R%d %d", i, s.Rules[i])
	}
	return b.String()
}

// Silent returns the numbers of the rules that never decided anything.
func (s Stats) Silent() []int {
	var silent []int
	for i := 1; i <= node.LastRule; i++ {
		if s.Rules[i] == 0 {
			silent = append(silent, i)
		}
	}
	return silent
}

// countRules adds what the core of a process has counted, before it is gone.
func (s *sim) countRules(p *process) {
	if p.core == nil {
		return
	}
	for i, n := range p.core.Stats().Rules {
		s.stats.Rules[i] += n
	}
}

// String shows the counters on two lines.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of cluster time, %d messages (%d lost), %d acquired, %d failed, %d lost, %d canceled, "+
		"%d tokens (%d excused), %d rose, %d replaced, %d kept a grant, longest wait %.1fT, for a token %.1fT\nfaults:",
		seconds(s.Virtual), s.Messages, s.LostMessages, s.Acquired, s.Failed, s.Lost, s.Canceled, s.Tokens,
		s.TokensExcused, s.Rose, s.Replaced, s.LeftBefore, s.LongestWait, s.LongestToken)
	for k := FaultKind(1); k < endOfFaultKinds; k++ {
		fmt.Fprintf(&b, " %v %d", k, s.Faults[k])
	}
	return b.String()
}

// Result is what a run found.
type Result struct {
	Options   Options
	Violation *Violation // the first one; nil when all promises were kept
	Stats     Stats
	Digest    uint64   // of all that was sent and told: equal for equal runs
	Trace     []string // the last events, when asked for
}

// Report returns what to print of a run that failed: the seed, what broke, the
// last events, and the command that replays it.
func (r *Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%v\n", r.Options, r.Stats)
	for _, line := range r.Trace {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "VIOLATION of %v\nreplay: go test ./node/nodetest -count=1 -run TestSeed -seed=%d", r.Violation, r.Options.Seed)
	if r.Options.Aim != "" {
		fmt.Fprintf(&b, " -aim=%s", r.Options.Aim)
	}
	b.WriteString("\n")
	return b.String()
}

func seconds(d node.Duration) string { return fmt.Sprintf("%.6fs", float64(d)/float64(node.Second)) }
