package node

import (
	"math/rand/v2"
	"testing"
)

// I1 and I2: a holder that is cut off is told before anybody else is granted the lock,
// also when its clock runs as slowly and the others' as fast as d allows.
func TestI2_LossIsToldBeforeTheNextGrant(t *testing.T) {
	for _, drift := range []int64{0, testDrift, -testDrift} {
		lossBeforeGrant(t, drift)
	}
}

func lossBeforeGrant(t *testing.T, drift int64) {
	t.Helper()
	c := newCluster(t, 3, nil)
	c.delay = 0 // the worst case: a member hears at once, and a grant is there at once
	c.rate["a"], c.rate["b"], c.rate["c"] = -drift, drift, drift
	c.run(4 * oneT)
	held := c.lock("a", "L")
	c.run(oneT)
	c.mustAcquire("a", held)
	waiting := c.lock("c", "L")
	c.run(oneT / 10)
	c.filter = func(m *Message) verdict {
		if m.From == "a" || m.To == "a" {
			return drop
		}
		return pass
	}
	for end := c.now.Add(3 * oneT); c.now < end; c.run(Millisecond) {
		if c.event("c", EventAcquired, waiting) != nil {
			break
		}
	}
	c.mustAcquire("c", waiting)
	if e := c.event("a", EventLost, held); e == nil || e.Loss != LossCutOff {
		t.Errorf("drift %d: want a told that it was cut off before c has the lock, got %+v", drift, e)
	}
}

// For each pair of clocks within d, in units of real time: a grant is over at its
// requester before the member ends the session, a vote before the member gives the other.
func TestI2_SpansLeaveRoomForDrift(t *testing.T) {
	for _, ttl := range []Duration{Millisecond, Second, 3 * Second, 10*Second + 1, 300 * Second} {
		for _, d := range []int64{0, 1, 83_000, 100_000, maxDrift} {
			tm := newTiming(ttl, d)
			// A span on a clock of rate r lasts span / r of real time.
			const one = Duration(million)
			slow, fast := Duration(million-d), Duration(million+d)
			if tm.fresh*one > ttl*slow || tm.session*one < ttl*fast || tm.quarantine < tm.session {
				t.Errorf("T %d, d %d: fresh %d, session %d, quarantine %d", ttl, d, tm.fresh, tm.session, tm.quarantine)
			}
			if 3*tm.vote*one > ttl*slow || 3*tm.voteSilence*one < ttl*fast {
				t.Errorf("T %d, d %d: vote %d, silence %d", ttl, d, tm.vote, tm.voteSilence)
			}
			if tm.silence*slow < tm.session*fast {
				t.Errorf("T %d, d %d: silence %d, session %d", ttl, d, tm.silence, tm.session)
			}
		}
	}
}

// I1 to I4 under loss, doubling, reordering and crashes. The simulator goes further; this
// one is small, and part of every run.
func TestI1_OneHolderUnderFaults(t *testing.T) {
	for seed := range uint64(6) {
		story(t, seed)
	}
}

func story(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 1))
	c := readyCluster(t, []int{3, 5, 7}[seed%3], func(cfg *Config) { cfg.NoRotation = seed%2 == 0 })
	c.filter = func(m *Message) verdict {
		switch x := rng.IntN(100); {
		case x < 4:
			return drop
		case x < 8:
			return hold
		case x < 10:
			c.fly(*m) // doubled
		}
		return pass
	}
	tokens, acquired := map[string]uint64{}, 0
	seen := map[string]int{}
	for range 250 {
		name := c.members[rng.IntN(len(c.members))]
		switch x := rng.IntN(100); {
		case x < 2:
			c.crash(name)
		case c.nodes[name] == nil && x < 50:
			c.start(name)
			seen[name] = len(c.events[name])
		case c.nodes[name] != nil && x < 60 && len(c.nodes[name].calls) < 3:
			c.lockWith(name, []string{"L", "M"}[rng.IntN(2)], CallOptions{Try: x < 10})
		case x < 80:
			c.free(func(*Message) bool { return rng.IntN(2) == 0 })
		}
		c.run(Duration(rng.Int64N(int64(oneT / 8))))
		for _, name := range c.members {
			for ; seen[name] < len(c.events[name]); seen[name]++ {
				e := c.events[name][seen[name]]
				switch n := c.nodes[name]; {
				case n == nil:
				case e.Type == EventAcquired && rng.IntN(2) == 0:
					n.WantToken(c.clock(name), e.Call)
					c.collect(name)
					acquired++
				case e.Type == EventAcquired:
					c.unlock(name, e.Call)
					acquired++
				case e.Type == EventToken:
					if e.Token <= tokens[e.Lock] {
						t.Fatalf("I3: seed %d: token %d of %q after %d", seed, e.Token, e.Lock, tokens[e.Lock])
					}
					tokens[e.Lock] = e.Token
					c.unlock(name, e.Call)
				}
			}
		}
	}
	heal(t, c, seed)
	if acquired == 0 {
		t.Errorf("seed %d: nothing was ever locked", seed)
	}
}

// heal ends the faults; then whoever asks must be served.
func heal(t *testing.T, c *cluster, seed uint64) {
	t.Helper()
	c.filter = nil
	for _, name := range c.members {
		if c.nodes[name] == nil {
			c.start(name)
		}
		n := c.nodes[name]
		for call := CallID(1); call <= c.calls; call++ {
			n.Unlock(c.clock(name), call)
			n.Cancel(c.clock(name), call)
		}
		c.collect(name)
	}
	c.run(3 * oneT)
	for _, name := range c.members {
		call := c.lock(name, "L")
		c.run(5 * oneT)
		if c.event(name, EventAcquired, call) == nil {
			t.Fatalf("seed %d: node %s is not served within 5 T after all faults ended", seed, name)
		}
		c.unlock(name, call)
	}
}

// I3: tokens rise from holder to holder, also across the restart of any minority.
func TestI3_TokensRiseAcrossRestarts(t *testing.T) {
	c := readyCluster(t, 3, nil)
	var last uint64
	for round := range 9 {
		name := c.members[round%3]
		call := c.lock(name, "L")
		c.run(oneT)
		c.mustAcquire(name, call)
		token := c.token(name, call, oneT)
		if token <= last {
			t.Fatalf("round %d: want a token above %d, got %d", round, last, token)
		}
		last = token
		c.unlock(name, call)
		c.crash(name)
		c.start(name)
		c.run(4 * oneT)
	}
}

// I4: a grant goes with its session, and never stands in the queue; checked after every
// step of every test, here with a session that ends while it has both.
func TestI4_GrantsAndRequestsGoWithTheSession(t *testing.T) {
	s := newMember(t, nil)
	for _, name := range []string{"x", "y"} {
		for _, lock := range []string{"1", "2", "3"} {
			s.ask(name, Message{Type: MsgRequest, Lock: lock, ID: RequestID{Counter: 1}, RequestTime: 1})
		}
	}
	s.ask("y", Message{Type: MsgRequest, Lock: "4", ID: RequestID{Counter: 1}, RequestTime: 1})
	s.ask("x", Message{Type: MsgRequest, Lock: "4", ID: RequestID{Counter: 1}, RequestTime: 1})
	s.wait(s.n.tm.session / 2)
	s.keepAlive("y")
	s.wait(s.n.tm.session - s.n.tm.session/2)
	for _, lock := range []string{"1", "2", "3", "4"} {
		l := s.n.locks[lock]
		if l == nil || l.grant.session.key.name != "y" || len(l.queue) != 0 {
			t.Errorf("lock %s: want y alone", lock)
		}
	}
}
