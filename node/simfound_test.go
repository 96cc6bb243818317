package node

import "testing"

// What the simulator of node/nodetest found, one test each.

// A grant whose Release was lost after it had been validated once is found by the next
// who waits, at once and not only after T/4.
func TestR9_NewWaiterHasAnOldGrantValidated(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.one(s.request("y", 1, 20), "x", MsgValidate)
	s.release("y", 1)
	s.wait(s.n.tm.repeat)
	s.one(s.request("z", 1, 30), "x", MsgValidate)
	s.release("z", 1)
	s.none(s.request("y", 2, 40), "x", MsgValidate) // rate-limited
}

// A client answers nobody: the incarnation to which it addresses its messages is all that
// can tell a sole member, restarted after its wall clock went back, of the higher one.
func TestR30_MessageToAHigherIncarnationReportsIt(t *testing.T) {
	s := newSolo(t, "a", 1, nil)
	higher := Incarnation{Start: s.n.inc.Start + 1000, Random: 7}
	s.ask("client", Message{Type: MsgKeepAlive, ToIncarnation: higher})
	if s.n.inc.Compare(higher) <= 0 {
		t.Errorf("incarnation %v after a message to %v: want a higher one", s.n.inc, higher)
	}
	s.wait(s.n.tm.quarantine + 1)
	s.ask("client", Message{Type: MsgKeepAlive, ToIncarnation: Incarnation{Start: s.n.inc.Start + 1, Random: 7}})
	if findEvent(s.events, EventReplaced, 0) == nil {
		t.Error("reported later: want the node to stop")
	}
}

// A message that was under way for long can renew a session in the middle of a silence,
// and KeepAlives would keep it for ever. So silence comes again while nothing is heard.
func TestR22_SilenceComesAgain(t *testing.T) {
	s := newClient(t, 3, nil)
	s.wait(oneT)
	for round := range 4 {
		s.wait(s.n.tm.silence - 1)
		if said := to(s.all, "a", MsgKeepAlive); len(said) > 0 {
			t.Errorf("silence %d: want nothing said, got %d KeepAlives", round, len(said))
		}
		s.wait(oneT + 1)
		if said := to(s.all, "a", MsgKeepAlive); len(said) < 3 {
			t.Errorf("after silence %d: want KeepAlives, got %d", round, len(said))
		}
	}
}

// A tick that comes late finds the deadline of a hold and the end of a session at the own
// member both due. The grant that the second frees comes too late for the hold.
func TestR20_LateTickLosesBeforeAnythingElse(t *testing.T) {
	s := newMember(t, func(c *Config) { c.TreeOnly = true })
	start := s.now
	at := func(d Duration) { s.wait(start.Add(d).Sub(s.now)) }
	s.request("x", 1, 10) // its session ends after 1.1 T
	at(oneT * 21 / 100)
	s.lock(1, CallOptions{})
	s.grant("a", 1) // counts until 1.11 T
	s.grant("c", 1)
	if !s.acquired(1) {
		t.Fatal("want the lock by a and c; the own member has granted x")
	}
	at(oneT / 2)
	s.ack("c")
	at(oneT*11/10 - 1)
	s.now = start.Add(oneT * 112 / 100)
	s.n.Tick(s.now)
	s.take()
	if !s.lost(1) {
		t.Error("want the lease lost")
	}
}

// No deadline is told of a lease that its caller was not told of.
func TestR20_NoDeadlineBeforeTheLease(t *testing.T) {
	s := newClient(t, 7, nil)
	s.ack(letters(7)...)
	for _, name := range letters(7) {
		s.answer(name, Message{Type: MsgKeepAliveAck, Vote: VoteTree})
	}
	s.lock(1, CallOptions{LongHold: true})
	for i, name := range []string{"a", "b", "d"} {
		s.grant(name, uint64(i+1))
	}
	s.now += Instant(oneT / 10)
	for _, name := range letters(7) {
		s.answer(name, Message{Type: MsgKeepAliveAck, Vote: VoteTree})
	}
	if s.acquired(1) {
		t.Fatal("told by votes alone, which last 0.3 T")
	}
	s.n.reviewRequests()
	s.take()
	if e := findEvent(s.events, EventDeadline, 1); e != nil {
		t.Errorf("want no deadline yet, got %+v", *e)
	}
}
