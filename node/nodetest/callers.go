package nodetest

import (
	"github.com/treequorum/dmutex/node"
)

// slot is one caller of a process: it thinks, locks, holds, unlocks, and so on.
type slot struct {
	call *call // nil while it thinks
	turn int   // counts its thoughts; a later one takes the place of an earlier one
	last bool  // its last call, made after the faults, is over or under way
}

// call is one call of Lock or TryLock, and the lease that comes of it.
type call struct {
	id       node.CallID
	who      *process
	life     int
	slot     int
	lock     string
	holds    bool
	started  moment
	acquired moment
	probe    bool // made to see whether any member keeps a grant
	wants    bool // a fencing token
	asked    moment
	token    uint64
	lease    int // the how-manieth lease of the lock this is
	claim    *claim
}

// startCallers lets all callers of a process that has just started think.
func (s *sim) startCallers(p *process) {
	p.slots = make([]slot, s.opt.Calls.Slots)
	for i := range p.slots {
		s.think(p, i)
	}
}

// think has a caller make its next call after a while. After the faults each
// makes one more.
func (s *sim) think(p *process, i int) {
	life, wait := p.life, around(s.rand, s.opt.Calls.Think)
	if s.healed {
		if p.slots[i].last || s.now.sub(s.healedAt) > s.opt.TTL {
			return
		}
		p.slots[i].last = true
		wait = upTo(s.rand, s.opt.TTL)
	}
	p.slots[i].turn++
	turn := p.slots[i].turn
	s.after(wait, func() {
		p.awake(life, func() {
			if p.slots[i].turn == turn {
				s.lock(p, i)
			}
		})
	})
}

// lock makes a call.
func (s *sim) lock(p *process, i int) {
	opt := &s.opt.Calls
	c := s.newCall(p, i, s.someLock())
	c.wants = chance(s.rand, opt.Token)
	s.ask(c, node.CallOptions{
		Try: chance(s.rand, opt.Try), LongHold: chance(s.rand, opt.Spread), Watch: chance(s.rand, 0.1), Label: "x",
	})
	if chance(s.rand, opt.Patience) && !s.healed {
		s.after(upTo(s.rand, 4*s.opt.TTL), func() { p.awake(c.life, func() { s.giveUp(c) }) })
	}
}

// takeOnce has a lock taken from all members and given back.
func (s *sim) takeOnce(p *process, lock string) {
	p.slots = append(p.slots, slot{last: true})
	c := s.newCall(p, len(p.slots)-1, lock)
	c.probe = true
	s.ask(c, node.CallOptions{LongHold: true})
}

func (s *sim) newCall(p *process, slot int, lock string) *call {
	s.lastCall++
	c := &call{id: s.lastCall, who: p, life: p.life, slot: slot, started: s.now, lock: lock}
	p.slots[slot].call = c
	s.calls[c.id] = c
	s.served.waits(c)
	return c
}

func (s *sim) ask(c *call, options node.CallOptions) {
	if s.tracing {
		s.trace("%s call %d wants %s, try %v", c.who.name, c.id, c.lock, options.Try)
	}
	now := c.who.now()
	c.who.core.Lock(now, c.id, c.lock, options)
	c.who.collect(now)
}

func (s *sim) giveUp(c *call) {
	if s.calls[c.id] != c || c.holds {
		return
	}
	now := c.who.now()
	waits := c.who.core.Cancel(now, c.id)
	c.who.collect(now)
	if waits {
		s.stats.Canceled++
	}
	if s.calls[c.id] == c && waits {
		s.fail("%s call %d was canceled and goes on", c.who.name, c.id)
	}
}

// keep decides how long a lease lasts that has just begun.
func (s *sim) keep(c *call) {
	opt := &s.opt.Calls
	d := upTo(s.rand, opt.Hold)
	if chance(s.rand, opt.LongHold) {
		d = upTo(s.rand, 10*s.opt.TTL)
	}
	switch {
	case c.probe:
		d = s.opt.TTL / 4 // long enough to reach all members
	case s.healed:
		d = upTo(s.rand, s.opt.TTL/16)
	}
	s.after(d, func() { c.who.awake(c.life, func() { s.unlock(c) }) })
	if c.wants {
		s.after(upTo(s.rand, d/4), func() { c.who.awake(c.life, func() { s.wantToken(c) }) })
	}
}

func (s *sim) wantToken(c *call) {
	if s.calls[c.id] != c || !c.holds || c.asked != 0 {
		return
	}
	c.asked = s.now
	now := c.who.now()
	c.who.core.WantToken(now, c.id)
	c.who.collect(now)
}

// unlock ends a lease. After all faults one that wants a token waits for it: it
// must come.
func (s *sim) unlock(c *call) {
	if s.calls[c.id] != c || !c.holds {
		return
	}
	if s.healed && !s.half && c.wants && c.token == 0 {
		s.wantToken(c)
		s.after(s.opt.TTL/16, func() { c.who.awake(c.life, func() { s.unlock(c) }) })
		return
	}
	p := c.who
	s.trace("%s call %d unlocks %s", p.name, c.id, c.lock)
	now := p.now()
	held := p.core.Unlock(now, c.id)
	if held != (now < c.claim.deadline) {
		s.fail("%s call %d unlocks at %d, deadline %d, held %v", p.name, c.id, now, c.claim.deadline, held)
	}
	if held {
		s.endClaim(c)
	}
	p.collect(now) // its token may be among what comes
	if held && s.calls[c.id] == c {
		s.over(c)
	}
}

// over ends a call; its caller thinks of the next one.
func (s *sim) over(c *call) {
	delete(s.calls, c.id)
	s.served.ends(c)
	if c.who.life == c.life {
		c.who.slots[c.slot].call = nil
		s.think(c.who, c.slot)
	}
}

// dropCalls forgets the calls of a process that ended.
func (s *sim) dropCalls(p *process) {
	for i := range p.slots {
		if c := p.slots[i].call; c != nil {
			delete(s.calls, c.id)
			s.served.ends(c)
			p.slots[i].call = nil
		}
	}
}

// happened handles what a core tells. It must not call the core: its Output is
// valid only until then.
func (s *sim) happened(p *process, e *node.Event) {
	if s.tracing {
		s.trace("%s %s", p.name, tell(e))
	}
	switch e.Type {
	case node.EventAcquired, node.EventFailed, node.EventLost, node.EventToken, node.EventDeadline:
		c := s.calls[e.Call]
		if c == nil || c.who != p {
			s.fail("%s tells of call %d, which it does not have: %s", p.name, e.Call, tell(e))
			return
		}
		s.callEvent(p, c, e)
	case node.EventReplaced:
		s.stats.Replaced++
		p.replaced = true
	case node.EventRestarted:
		s.stats.Rose++
	case node.EventDropped:
		s.fail("%s: %s", p.name, tell(e))
	case node.EventWaiting, node.EventPeerUp, node.EventPeerDown, node.EventPeerStarting, node.EventPeerDiffers:
	}
}

func (s *sim) callEvent(p *process, c *call, e *node.Event) {
	if c.holds == (e.Type == node.EventAcquired || e.Type == node.EventFailed) {
		s.fail("%s tells of call %d, holding %v: %s", p.name, c.id, c.holds, tell(e))
		return
	}
	switch e.Type {
	case node.EventAcquired:
		s.stats.Acquired++
		c.holds, c.acquired = true, s.now
		s.served.has(c)
		s.beginClaim(c, e.Deadline)
		s.keep(c)
	case node.EventFailed:
		s.stats.Failed++
		s.over(c)
	case node.EventLost:
		s.stats.Lost++
		s.endClaim(c)
		s.over(c)
	case node.EventToken:
		s.stats.Tokens++
		c.token = e.Token
		if c.asked != 0 && s.healed {
			s.stats.LongestToken = max(s.stats.LongestToken, float64(s.now.sub(max(c.asked, s.healedAt)))/float64(s.opt.TTL))
		}
		s.report(s.tokens.fixed(c.lock, c.lease, c.token, p.name))
	default: // a new deadline, which watchClaims asks for
	}
}
