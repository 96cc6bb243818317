package nodetest

import (
	"fmt"

	"github.com/treequorum/dmutex/node"
)

// tokens is the promise that fencing tokens of one lock rise with each lease that
// has one (I3), whatever restarts. There is one exception: when a majority of the
// members has lost its memory, and wall clocks are wrong as well.
type tokens struct {
	members int
	walls   bool   // wall clocks are wrong
	knows   []bool // by member: it runs and knows its floors
	locks   map[string]*lockTokens
	excused uint64
}

type lockTokens struct {
	leases  int           // so many leases began
	fixed   []leasedToken // in the order of the leases
	excused int           // leases up to this one prove nothing about later ones
}

type leasedToken struct {
	lease int
	token uint64
	who   string
}

func newTokens(members int, walls bool) *tokens {
	return &tokens{members: members, walls: walls, knows: make([]bool, members), locks: make(map[string]*lockTokens)}
}

func (t *tokens) lock(name string) *lockTokens {
	l := t.locks[name]
	if l == nil {
		l = &lockTokens{}
		t.locks[name] = l
	}
	return l
}

// lease numbers a lease that begins.
func (t *tokens) lease(lock string) int {
	t.excuse()
	l := t.lock(lock)
	l.leases++
	return l.leases
}

// memory notes whether a member runs and knows its floors.
func (t *tokens) memory(member int, knows bool) {
	if member < t.members && t.knows[member] != knows {
		t.knows[member] = knows
		t.excuse()
	}
}

// excuse notes that the exception holds now.
func (t *tokens) excuse() {
	lost := 0
	for _, knows := range t.knows {
		if !knows {
			lost++
		}
	}
	if !t.walls || lost <= t.members/2 {
		return
	}
	for _, l := range t.locks {
		l.excused = l.leases
	}
}

// fixed judges a token. Others of later leases must be higher, those of earlier
// ones lower.
func (t *tokens) fixed(lock string, lease int, token uint64, who string) *Violation {
	t.excuse()
	l := t.lock(lock)
	for _, o := range l.fixed {
		if o.lease == lease || (o.lease < lease) == (o.token < token) && o.token != token {
			continue
		}
		if min(o.lease, lease) <= l.excused {
			t.excused++
			continue
		}
		return &Violation{Kind: "tokens", Text: fmt.Sprintf("lease %d of %s, of %s, has token %d, lease %d, of %s, has %d",
			lease, lock, who, token, o.lease, o.who, o.token)}
	}
	l.fixed = append(l.fixed, leasedToken{lease, token, who})
	// Later leases are far above the ones that are dropped, unless something is
	// wrong, which the ones that stay show as well.
	if len(l.fixed) > 64 {
		l.fixed = append(l.fixed[:0], l.fixed[32:]...)
	}
	return nil
}

// watchMemory notes which members know their floors. It asks each T/8: to learn of it
// late can only excuse a little more.
func (s *sim) watchMemory(p *process, now node.Instant) {
	if p.index < s.opt.Members && !s.tokens.knows[p.index] && now >= p.asked.Add(s.opt.TTL/8) {
		p.asked = now
		s.tokens.memory(p.index, p.core.Status(now).FloorsKnown)
	}
}
