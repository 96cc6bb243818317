package nodetest

import (
	"fmt"

	"github.com/treequorum/dmutex/node"
)

// served is the promise that after the faults everybody who waits gets the lock
// or an error within a bound, and that who holds gets its token.
type served struct {
	waiting map[node.CallID]*call
	exempt  *process // which is still cut off
	bound   node.Duration
	ttl     node.Duration
	since   moment  // when the faults ended; never: they go on
	longest float64 // wait since then, in T
}

func (s *served) waits(c *call) { s.waiting[c.id] = c }

// has notes that a call has its lock.
func (s *served) has(c *call) {
	if s.since != never && c.who != s.exempt {
		s.longest = max(s.longest, float64(c.acquired.sub(max(c.started, s.since)))/float64(s.ttl))
	}
}

func (s *served) ends(c *call) { delete(s.waiting, c.id) }

// over reports whether nobody waits or holds who must be served.
func (s *served) over() bool {
	for _, c := range s.waiting {
		if c.who != s.exempt {
			return false
		}
	}
	return true
}

// judge reports a call that is over its bound. Calls are judged in order, so that
// equal runs report equal things.
func (s *served) judge(now moment) *Violation {
	var worst *call
	for _, c := range s.waiting {
		if c.who == s.exempt {
			continue
		}
		if late := now.sub(max(c.started, s.since)) > s.bound; late && (worst == nil || c.id < worst.id) {
			worst = c
		}
	}
	if worst == nil {
		return nil
	}
	state := "waits"
	if worst.holds {
		state = fmt.Sprintf("holds since %s and wants a token (%v, has %d)", seconds(node.Duration(worst.acquired)), worst.wants, worst.token)
	}
	return &Violation{Kind: "served", At: node.Duration(now), Text: fmt.Sprintf("%s call %d for %s, of %s, still %s",
		worst.who.name, worst.id, worst.lock, seconds(node.Duration(worst.started)), state)}
}
