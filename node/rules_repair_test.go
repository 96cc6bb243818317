package node

import (
	"testing"
)

// Section 5, Up: a member "is not up when it has not answered within its measured round
// trip plus a margin (T/24 at most in all, but never below the round trip itself) …
// Then ask substitutes at once, keep the grants already in hand."
func TestR21_SilentMemberIsSubstituted(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.grant("b", 1)
	s.none(s.waitWith(s.n.tm.answer-1, "b", "c"), "c", MsgRequest)
	out := s.waitWith(1, "b", "c")
	s.one(out, "c", MsgRequest)
	s.none(out, "b", MsgRequest)
	s.grant("c", 1)
	if !s.acquired(1) {
		t.Error("want the lock by the grants of b and c")
	}
}

func TestR21_SlowMemberIsGivenItsRoundTrip(t *testing.T) {
	s := newClient(t, 3, nil)
	s.waitWith(s.n.tm.keepIdle, "a", "b", "c")
	const slow = 100 * Millisecond // more than T/24
	s.answer("a", Message{Type: MsgKeepAliveAck, Echo: s.now.Add(-slow)})
	s.n.PeerRefused(s.now, "c")
	s.lock(1, CallOptions{})
	start := s.now
	s.waitWith(slow-1, "b")
	if !s.n.Status(s.now).Peers[0].Up {
		t.Errorf("not up after %d, round trip %d", s.now.Sub(start), slow)
	}
	s.waitWith(1, "b")
	if s.n.Status(s.now).Peers[0].Up {
		t.Error("still up after its round trip")
	}
}

// "… refuses the connection, says NotReady (but for a full queue), or is called dead by
// gossip and has not been heard since; until its next answer."
func TestR21_RefusedNotReadyAndDeadMembersAreSubstituted(t *testing.T) {
	down := map[string]func(s *solo){
		"refused": func(s *solo) { s.n.PeerRefused(s.now, "a") },
		"dead":    func(s *solo) { s.n.PeerDead(s.now, "a") },
		"differs": func(s *solo) { s.n.PeerDiffers(s.now, "a") },
		"quarantined": func(s *solo) {
			s.n.Step(s.now, s.fill("a", Message{Type: MsgNotReady, Lock: "L", Reason: ReasonQuarantined, Session: 1, Echo: s.now}))
		},
		"no session": func(s *solo) { s.n.Step(s.now, s.fill("a", Message{Type: MsgNotReady, Reason: ReasonTooManySessions})) },
	}
	for name, happens := range down {
		s := newClient(t, 3, nil)
		s.lock(1, CallOptions{})
		happens(s)
		s.one(s.take(), "c", MsgRequest)
		if s.n.Status(s.now).Peers[0].Up {
			t.Errorf("%s: still up", name)
		}
		if name == "quarantined" {
			s.n.Step(s.now, s.fill("a", Message{Type: MsgKeepAliveAck, Session: 1, Echo: s.now})) // answers, but does not vote
			if s.n.Status(s.now).Peers[0].Up {
				t.Error("up again though it is quarantined")
			}
		}
		s.ack("a")
		if !s.n.Status(s.now).Peers[0].Up {
			t.Errorf("%s: want it up after its next answer", name)
		}
	}
	s := newClient(t, 3, nil)
	s.n.PeerDead(s.now, "a")
	s.n.PeerAlive(s.now, "a")
	s.n.PeerDead(s.now, "nobody")
	if s.take(); !s.n.Status(s.now).Peers[0].Up {
		t.Error("want a member up that gossip calls alive again")
	}
}

// Section 6: "A requester that has not heard from m for T says nothing to it for
// T x ((1+d)^2/(1-d) + 1/8), then only KeepAlives until it answers."
func TestR22_SilenceAfterT(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{}) // asks a and b
	s.n.Lock(s.now, 9, "M", CallOptions{})
	s.one(s.take(), "a", MsgRequest)
	s.waitWith(oneT-1, "b", "c")
	if len(to(s.all, "a", MsgRequest)) > 0 {
		t.Fatal("want a substituted by now")
	}
	toA := func(d Duration) (keepAlives, others int) {
		for end := s.now.Add(d); s.now < end; {
			s.now = min(end, max(s.n.Wake(), s.now+1))
			s.n.Tick(s.now)
			s.take()
			for _, m := range s.all {
				switch {
				case m.To == "a" && m.Type == MsgKeepAlive:
					keepAlives++
				case m.To == "a":
					others++
				case m.Type == MsgKeepAlive:
					s.ack(m.To)
				}
			}
		}
		return keepAlives, others
	}
	const silence = 1_469_444_445 // T x (1.21/0.9 + 1/8)
	if k, o := toA(silence); k+o != 0 {
		t.Errorf("in the silence: want nothing said, got %d KeepAlives and %d others", k, o)
	}
	s.n.Cancel(s.now, 1)
	s.none(s.take(), "a", MsgRelease)
	if k, o := toA(oneT); k < 4 || o != 0 {
		t.Errorf("after the silence: want KeepAlives only, got %d and %d others", k, o)
	}
	s.n.Cancel(s.now, 9)
	s.none(s.take(), "a", MsgRelease)
	s.n.PeerRefused(s.now, "b")
	s.n.PeerRefused(s.now, "c")
	s.lock(2, CallOptions{})
	s.none(s.out, "a", MsgRequest)
	s.ack("a")
	s.one(s.out, "a", MsgRequest)
}

// "A new incarnation of m ends it."
func TestR22_NewIncarnationEndsTheSilence(t *testing.T) {
	s := newClient(t, 3, nil)
	s.wait(oneT + oneT/2)
	s.lock(1, CallOptions{})
	s.none(s.out, "a", MsgRequest)
	s.incs["a"] = Incarnation{Start: 9}
	s.one(s.ask("a", Message{Type: MsgKeepAlive}), "a", MsgRequest)
}

// Section 5: "A requester that sees fewer than a majority … up for T/2 withdraws (Release
// to all asked) and asks again, with its old timestamp and a new id, when it sees a
// majority".
func TestR23_WithdrawsBelowAMajority(t *testing.T) {
	s := newClient(t, 3, nil)
	first := s.one(s.lock(1, CallOptions{}), "a", MsgRequest)
	s.grant("a", 1)
	s.n.PeerRefused(s.now, "b")
	s.n.PeerRefused(s.now, "c")
	s.take()
	s.none(s.waitWith(oneT/2-1, "a"), "a", MsgRelease)
	s.one(s.waitWith(1, "a"), "a", MsgRelease)
	s.none(s.waitWith(oneT/4, "a"), "a", MsgRequest)
	s.one(s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: first.ID, Number: 2}), "a", MsgRelease)
	s.ack("b")
	again := s.one(s.out, "a", MsgRequest)
	if again.RequestTime != first.RequestTime || again.ID.Counter <= first.ID.Counter {
		t.Errorf("want the timestamp of %+v and a new id, got %+v", first, again)
	}
	s.grant("a", 3)
	s.grant("b", 1)
	if !s.acquired(1) {
		t.Error("want the lock")
	}
}

// "… (TreeOnly: no tree quorum)": below a majority a path of the tree is enough.
func TestR23_TreeOnlyStaysWithAPath(t *testing.T) {
	for _, treeOnly := range []bool{true, false} {
		s := newClient(t, 7, func(c *Config) { c.TreeOnly = treeOnly })
		s.lock(1, CallOptions{})
		for _, name := range []string{"c", "e", "f", "g"} {
			s.n.PeerRefused(s.now, name)
		}
		s.take()
		out := s.waitWith(oneT, "a", "b", "d")
		if released := len(to(out, "d", MsgRelease)) > 0; released == treeOnly {
			t.Errorf("TreeOnly %v, a path of the tree up: withdrawn %v", treeOnly, released)
		}
	}
	s := newClient(t, 7, func(c *Config) { c.TreeOnly = true })
	s.lock(1, CallOptions{})
	for _, name := range []string{"a", "b", "d"} {
		s.n.PeerRefused(s.now, name)
	}
	s.take()
	s.one(s.waitWith(oneT, "c", "e", "f", "g"), "c", MsgRelease)
}

// Section 6: "A holder asks substitutes with holding (quorum repair) as soon as a member
// of its quorum counts as not up."
func TestR24_HolderRepairsItsQuorum(t *testing.T) {
	s := newHolder(t)
	s.n.PeerRefused(s.now, "a")
	if m := s.one(s.take(), "c", MsgRequest); !m.Holding || m.ID != s.id() {
		t.Errorf("want a Request that says that it holds, got %+v", m)
	}
	s.answer("c", Message{Type: MsgQueued, Lock: "L", ID: s.id()})
	s.none(s.waitWith(s.n.tm.holderRepeat-1, "b", "c"), "c", MsgRequest)
	s.one(s.waitWith(1, "b", "c"), "c", MsgRequest) // each T/8
	s.grant("c", 1)
	s.waitWith(2*oneT, "b", "c")
	if s.lost(1) {
		t.Error("want the lock kept by the grants of b and c")
	}
}

// "One that still holds after T/3 asks all other members too, with holding".
func TestR24_HolderAsksAllAfterATime(t *testing.T) {
	s := newHolder(t)
	const third = Duration(333_333_333)
	s.none(s.waitWith(third-1, "a", "b", "c"), "c", MsgRequest)
	if m := s.one(s.waitWith(1, "a", "b", "c"), "c", MsgRequest); !m.Holding {
		t.Errorf("want a Request that says that it holds, got %+v", m)
	}
	s = newClient(t, 3, nil)
	s.lock(1, CallOptions{LongHold: true})
	s.grant("a", 1)
	s.one(s.grant("b", 1), "c", MsgRequest)
}

// Section 8: "A holder under T whose votes run out asks the remaining members, with
// holding, until grants alone are a majority".
func TestR24_HolderWhoseVotesRunOutAsksAll(t *testing.T) {
	s := newClient(t, 7, nil)
	s.lock(1, CallOptions{}) // asks the path d, b, a
	for i, name := range []string{"a", "b", "d"} {
		s.grant(name, uint64(i+1))
	}
	if !s.acquired(1) {
		t.Fatal("want the lock by the path and the votes")
	}
	for _, name := range letters(7) {
		s.votes[name] = VoteNone
	}
	out := s.waitWith(oneT/5, letters(7)...) // votes last 0.3 T: less than T/6 is left
	for _, name := range []string{"c", "e", "f", "g"} {
		if m := s.one(out, name, MsgRequest); !m.Holding {
			t.Errorf("want a Request that says that it holds, got %+v", m)
		}
	}
	s.grant("c", 1)
	s.waitWith(oneT, letters(7)...)
	if s.lost(1) {
		t.Error("want the lock kept by a majority of grants")
	}
}
