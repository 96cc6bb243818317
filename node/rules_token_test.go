package node

import "testing"

// committed answers the Commit of the node.
func (s *solo) committed(name string, token, floor uint64, ok bool) []Message {
	s.tb.Helper()
	return s.answer(name, Message{Type: MsgCommitted, Lock: "L", ID: s.id(), Token: token, Floor: floor, OK: ok})
}

func (s *solo) token(call CallID) uint64 {
	if e := findEvent(s.events, EventToken, call); e != nil {
		return e.Token
	}
	return 0
}

// Section 10: "The holder proposes 1 + the highest floor that its grants carried. … it
// answers with its floor, and the holder tries again above it." "The caller gets the
// token when a majority said ok".
func TestR27_TokenIsFixedByAMajority(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, Floor: 10})
	s.answer("b", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, Floor: 20})
	s.n.WantToken(s.now, 1)
	out := s.take()
	for _, name := range []string{"a", "b"} {
		if m := s.one(out, name, MsgCommit); m.Token != 21 || m.ToIncarnation != s.inc(name) {
			t.Errorf("want token 21 proposed to %s, got %+v", name, m)
		}
	}
	s.none(out, "c", MsgCommit)
	s.committed("a", 21, 21, true)
	s.committed("a", 21, 21, true) // doubled
	if s.token(1) != 0 {
		t.Fatal("a token by one member of three")
	}
	out = s.committed("b", 21, 30, false)
	if s.one(out, "a", MsgCommit).Token != 31 || s.one(out, "b", MsgCommit).Token != 31 {
		t.Errorf("want 31 proposed to all, got %v", shows(out))
	}
	if out = s.committed("b", 21, 30, false); len(out) > 0 { // doubled
		t.Errorf("want no further proposal for a late refusal of 21, got %v", shows(out))
	}
	s.committed("a", 31, 31, true)
	s.committed("b", 21, 21, true) // late: "answers for an older token do not count"
	if s.token(1) != 0 {
		t.Fatal("a token by an answer for an older one")
	}
	s.committed("b", 31, 31, true)
	if got := s.token(1); got != 31 {
		t.Fatalf("want token 31, got %d", got)
	}
	s.events = nil
	s.n.WantToken(s.now, 1)
	if out := s.take(); s.token(1) != 31 || len(out) > 0 {
		t.Errorf("want the same token again, got %d, %v", s.token(1), shows(out))
	}
}

// "A token belongs to one lease: a lock handed to the next local caller needs a new
// Commit, above".
func TestR27_NextLeaseNeedsAHigherToken(t *testing.T) {
	s := newHolder(t)
	s.lock(2, CallOptions{})
	s.n.WantToken(s.now, 1)
	s.take()
	s.committed("a", 1, 1, true)
	s.n.Unlock(s.now, 1)
	s.take()
	s.n.WantToken(s.now, 2)
	if m := s.one(s.take(), "b", MsgCommit); m.Token != 2 {
		t.Errorf("want token 2 proposed, got %d", m.Token)
	}
	s.committed("b", 1, 1, true) // of the lease before
	s.committed("a", 2, 2, true)
	if s.token(2) != 0 {
		t.Error("a token by an answer for the lease before")
	}
	s.committed("b", 2, 2, true)
	if s.token(2) != 2 {
		t.Errorf("want token 2, got %d", s.token(2))
	}
	s.n.WantToken(s.now, 1) // over
	if out := s.take(); len(out) > 0 {
		t.Errorf("want no Commit for a lease that is over, got %v", shows(out))
	}
}

// "… all these answers still count as fresh (section 6), and the lock is still held."
func TestR27_OnlyFreshAnswersCount(t *testing.T) {
	s := newHolder(t)
	s.waitWith(oneT/2, "a", "b", "c")
	s.grant("c", 1)
	s.n.WantToken(s.now, 1)
	s.take()
	s.committed("a", 1, 1, true)
	out := s.waitWith(oneT, "b", "c") // a is cut off
	if m := to(out, "c", MsgCommit); len(m) == 0 || m[0].Token != 1 {
		t.Fatalf("want the token proposed to c in place of a, got %v", shows(out))
	}
	s.committed("b", 1, 1, true)
	if s.lost(1) || s.token(1) != 0 {
		t.Fatalf("want no token by an answer that is stale; lost %v, token %d", s.lost(1), s.token(1))
	}
	s.committed("c", 1, 1, true)
	if s.token(1) != 1 {
		t.Error("want the token by b and c")
	}
}

// The same for a member that has ended the session in which it took the token.
func TestR27_AnswerOfAFormerSessionDoesNotCount(t *testing.T) {
	s := newHolder(t)
	s.waitWith(oneT/2, "a", "b", "c")
	s.grant("c", 1)
	s.n.WantToken(s.now, 1)
	s.take()
	s.committed("a", 1, 1, true)
	s.sessions["a"] = 2
	s.ack("a")
	s.committed("b", 1, 1, true)
	if s.lost(1) || s.token(1) != 0 {
		t.Errorf("want no token by an answer of a former session; lost %v, token %d", s.lost(1), s.token(1))
	}
}

// "A member outside quarantine takes a token above its floor, or again the same one from
// the same id: Committed{ok}. Else it answers with its floor".
func TestR27_MemberTakesRisingTokens(t *testing.T) {
	s := newMember(t, nil)
	commit := func(name, lock string, id, token uint64) Message {
		t.Helper()
		m := Message{Type: MsgCommit, Lock: lock, ID: RequestID{Counter: id}, Token: token}
		return s.one(s.ask(name, m), name, MsgCommitted)
	}
	base := s.n.floors.base
	for _, test := range []struct {
		name, lock string
		id, token  uint64
		ok         bool
		floor      uint64
	}{
		{"x", "L", 1, base, false, base},
		{"x", "L", 1, base + 5, true, base + 5},
		{"x", "L", 1, base + 5, true, base + 5}, // the answer was lost
		{"x", "L", 2, base + 5, false, base + 5},
		{"y", "L", 1, base + 5, false, base + 5},
		{"x", "L", 1, base + 4, false, base + 5},
		{"y", "M", 1, base + 1, true, base + 1}, // locks are independent
		{"y", "L", 1, base + 6, true, base + 6},
	} {
		m := commit(test.name, test.lock, test.id, test.token)
		if m.OK != test.ok || m.Floor != test.floor || m.Token != test.token {
			t.Errorf("%+v: got %v, floor %d, token %d", test, m.OK, m.Floor, m.Token)
		}
	}
	if m := s.one(s.request("z", 1, 1), "z", MsgGrant); m.Floor != base+6 {
		t.Errorf("want the floor %d in the Grant, got %d", base+6, m.Floor)
	}
}

func TestR27_TokensAndFloorsHaveARange(t *testing.T) {
	s := newHolder(t)
	s.n.WantToken(s.now, 1)
	s.take()
	if out := s.committed("a", 1, MaxToken+1, false); len(out) > 0 {
		t.Errorf("a floor out of range: want it dropped, got %v", shows(out))
	}
	s = newMember(t, nil)
	if out := s.ask("x", Message{Type: MsgCommit, Lock: "L", ID: RequestID{Counter: 1}, Token: MaxToken + 1}); len(out) > 0 {
		t.Errorf("a token out of range: want it dropped, got %v", shows(out))
	}
}

// Section 10: "It starts them at its wall clock in microseconds, and takes Commit only
// once it has asked, after its quarantine, and read the floors of n - majority + 1 other
// members that know theirs, or of all others."
func TestR28_RestartedMemberReadsFloorsFirst(t *testing.T) {
	s := newSolo(t, "c", 5, nil)
	commit := func() Message {
		t.Helper()
		m := Message{Type: MsgCommit, Lock: "L", ID: RequestID{Counter: 1}, Token: 1 << 40}
		return s.one(s.ask("x", m), "x", MsgCommitted)
	}
	floors := func(name string, floor uint64, known bool) {
		s.answer(name, Message{Type: MsgFloors, Round: s.n.floors.round, Floor: floor, OK: known})
	}
	s.wait(s.n.tm.quarantine - 1)
	if len(to(s.all, "a", MsgReadFloors)) > 0 {
		t.Fatal("asks before the end of its quarantine")
	}
	floors("a", 90, true)
	floors("b", 90, true)
	floors("d", 90, true)
	s.wait(1)
	s.one(s.all, "a", MsgReadFloors)
	s.wait(s.n.tm.repeat)
	s.one(s.all, "a", MsgReadFloors)
	if m := commit(); m.OK || m.Floor != 0 {
		t.Errorf("want Commit refused before the floors are read, got %+v", m)
	}
	floors("a", 100, true)
	floors("b", 5000, false)
	floors("d", 1<<39, true)
	floors("d", 1<<39, true) // doubled
	if commit().OK {
		t.Error("want Commit refused: 2 of 5 know their floors, 3 must")
	}
	s.wait(s.n.tm.repeat)
	s.one(s.all, "b", MsgReadFloors) // it may know them later
	if len(to(s.all, "a", MsgReadFloors)) > 0 {
		t.Error("asks a again")
	}
	floors("b", 5000, true)
	if m := commit(); !m.OK {
		t.Errorf("want Commit taken after 3 of 5, got %+v", m)
	}
	if m := s.one(s.request("x", 1, 1), "x", MsgGrant); m.Floor != 1<<40 {
		t.Errorf("want the floor %d, got %d", uint64(1<<40), m.Floor)
	}
	s.ask("x", Message{Type: MsgRequest, Lock: "M", ID: RequestID{Counter: 1}, RequestTime: 1})
	if m := s.one(s.out, "x", MsgGrant); m.Floor != 1<<39 {
		t.Errorf("want the highest floor read, %d, for all locks, got %d", uint64(1<<39), m.Floor)
	}
}

func TestR28_AllOthersAreEnoughThoughNobodyKnows(t *testing.T) {
	s := newSolo(t, "c", 3, func(c *Config) { c.Members = []string{"a", "b", "c"} })
	s.wait(s.n.tm.quarantine)
	s.answer("a", Message{Type: MsgFloors, Round: s.n.floors.round, Floor: 7777})
	if s.n.Status(s.now).FloorsKnown {
		t.Error("known after one of two answers")
	}
	s.answer("b", Message{Type: MsgFloors, Round: s.n.floors.round + 1, Floor: 8888}) // of another attempt
	if s.n.Status(s.now).FloorsKnown {
		t.Error("known by an answer to another attempt")
	}
	s.answer("b", Message{Type: MsgFloors, Round: s.n.floors.round, Floor: 6666})
	if !s.n.Status(s.now).FloorsKnown || s.n.floors.base != 7777 {
		t.Errorf("want the floors known, at 7777, got %v, %d", s.n.Status(s.now).FloorsKnown, s.n.floors.base)
	}
	if m := s.one(s.ask("x", Message{Type: MsgReadFloors, Round: 9}), "x", MsgFloors); !m.OK || m.Floor != 7777 || m.Round != 9 {
		t.Errorf("want Floors 7777 of round 9, got %+v", m)
	}
}

// "It starts them at its wall clock in microseconds".
func TestR28_FloorsStartAtTheWallClock(t *testing.T) {
	n, err := New(testConfig("a", letters(3)), 5, 3_000_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if n.floors.base != 3_000_000_000 {
		t.Errorf("want the base floor 3000000000, got %d", n.floors.base)
	}
}
