package nodetest

import (
	"fmt"

	"github.com/treequorum/dmutex/node"
)

// leftover is the promise that no member keeps a grant or a queue, and no node a
// request, once all calls are over and sessions of the dead have ended.
func leftover(name string, s node.Status) *Violation {
	if s.Locks == 0 && s.Requests == 0 {
		return nil
	}
	return &Violation{Kind: "leftover", Text: fmt.Sprintf("%s keeps %d locks and %d requests though all calls are over",
		name, s.Locks, s.Requests)}
}

func (s *sim) checkLeftover() {
	for _, p := range s.procs {
		if p.core == nil {
			continue
		}
		if v := leftover(p.name, p.core.Status(p.now())); v != nil {
			s.report(v)
			return
		}
	}
}

// countLeftover counts the members that keep something.
func (s *sim) countLeftover() uint64 {
	count := uint64(0)
	for _, p := range s.procs {
		if p.core != nil && leftover(p.name, p.core.Status(p.now())) != nil {
			count++
		}
	}
	return count
}
