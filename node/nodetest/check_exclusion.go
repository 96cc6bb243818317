package nodetest

import (
	"fmt"
	"slices"

	"github.com/treequorum/dmutex/node"
)

// claim is one hold as the holder sees it: from when its core said so until its
// core says that it is over, or its own deadline passes on its own clock. While
// the process is paused the claim stands, until that deadline.
type claim struct {
	lock     string
	who      string
	call     node.CallID
	clock    *clock
	deadline node.Instant // as far as the core knew when it last ran
	late     func() bool  // whether its driver may not have run at the deadline
}

// live reports whether the holder may believe at t that it holds.
func (c *claim) live(t moment) bool { return c.clock.read(t) < c.deadline }

// exclusion is the promise that no two nodes hold one lock at one instant (I1),
// and that a holder is told of its loss before another has the lock (I2).
type exclusion struct {
	claims map[string][]*claim
	grace  node.Duration // a driver that is not late has ticked so long after the deadline
}

// begin judges and keeps a new claim.
func (x *exclusion) begin(t moment, c *claim) *Violation {
	v := x.judge(t, c)
	x.claims[c.lock] = append(x.claims[c.lock], c)
	return v
}

func (x *exclusion) end(c *claim) {
	all := x.claims[c.lock]
	if i := slices.Index(all, c); i >= 0 {
		x.claims[c.lock] = slices.Delete(all, i, i+1)
	}
}

// renewed takes the deadline that a core tells for a claim. One that has passed
// must not come back.
func (x *exclusion) renewed(t moment, c *claim, deadline node.Instant) *Violation {
	passed, was := !c.live(t), c.deadline
	c.deadline = deadline
	if !passed {
		return nil
	}
	if v := x.judge(t, c); v != nil {
		return v
	}
	return &Violation{Kind: "revived", At: node.Duration(t), Text: fmt.Sprintf(
		"%s call %d holds %s until %d, though its clock shows %d and its deadline %d had passed",
		c.who, c.call, c.lock, deadline, c.clock.read(t), was)}
}

// judge looks for another live claim, and for one that is over and not told so.
func (x *exclusion) judge(t moment, c *claim) *Violation {
	if !c.live(t) {
		return &Violation{Kind: "exclusion", At: node.Duration(t), Text: fmt.Sprintf(
			"%s call %d is told to hold %s until %d, its clock shows %d", c.who, c.call, c.lock, c.deadline, c.clock.read(t))}
	}
	for _, o := range x.claims[c.lock] {
		switch {
		case o == c:
		case o.live(t):
			return &Violation{Kind: "exclusion", At: node.Duration(t), Text: fmt.Sprintf(
				"%s call %d holds %s, and so does %s call %d, whose clock shows %d and deadline %d",
				c.who, c.call, c.lock, o.who, o.call, o.clock.read(t), o.deadline)}
		case !o.late() && o.clock.read(t) > o.deadline.Add(x.grace):
			return &Violation{Kind: "told", At: node.Duration(t), Text: fmt.Sprintf(
				"%s call %d holds %s, and %s call %d, whose deadline %d has passed at %d, was not told",
				c.who, c.call, c.lock, o.who, o.call, o.deadline, o.clock.read(t))}
		}
	}
	return nil
}

// beginClaim is called when a core says that a call has its lock.
func (s *sim) beginClaim(c *call, deadline node.Instant) {
	p := c.who
	c.claim = &claim{
		lock: c.lock, who: p.name, call: c.id, clock: &p.clock, deadline: deadline,
		late: func() bool { return p.paused },
	}
	p.claims = append(p.claims, c.claim)
	p.acquired = true
	s.report(s.exclusion.begin(s.now, c.claim))
	c.lease = s.tokens.lease(c.lock)
}

func (s *sim) endClaim(c *call) {
	s.exclusion.end(c.claim)
	if i := slices.Index(c.who.claims, c.claim); i >= 0 {
		c.who.claims = slices.Delete(c.who.claims, i, i+1)
	}
}

// watchClaims asks a core, which has just run, until when it holds what it holds.
func (s *sim) watchClaims(p *process, now node.Instant) {
	for _, c := range p.claims {
		if until, held := p.core.Deadline(now, c.call); held && until != c.deadline {
			s.report(s.exclusion.renewed(s.now, c, until))
		}
	}
}
