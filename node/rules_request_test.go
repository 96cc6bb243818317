package node

import (
	"testing"
)

// Section 5, requester: "it repeats its Request each T/4 … to every member whose grant it
// lacks, Queued or not".
func TestR16_RequestIsRepeatedUntilGranted(t *testing.T) {
	s := newClient(t, 3, nil)
	out := s.lock(1, CallOptions{})
	first := s.one(out, "a", MsgRequest)
	s.one(out, "b", MsgRequest)
	s.none(out, "c", MsgRequest)
	s.waitWith(10*Millisecond, "a", "b", "c")
	s.answer("a", Message{Type: MsgQueued, Lock: "L", ID: s.id(), Owner: "y"})
	s.grant("b", 1)
	// An answer just before the time is over must not put the repetition off.
	s.none(s.waitWith(s.n.tm.repeat-10*Millisecond-1, "a", "b", "c"), "a", MsgRequest)
	s.answer("a", Message{Type: MsgQueued, Lock: "L", ID: s.id(), Owner: "y"})
	out = s.waitWith(1, "a", "b", "c")
	again := s.one(out, "a", MsgRequest)
	s.none(out, "b", MsgRequest)
	if again.ID != first.ID || again.RequestTime != first.RequestTime {
		t.Errorf("want the same request again, got %+v after %+v", again, first)
	}
	s.one(s.waitWith(s.n.tm.repeat, "a", "b", "c"), "a", MsgRequest)
}

// "… and at once when that member's session number or incarnation has changed."
func TestR16_RequestIsRepeatedAtOnceToANewSessionOrIncarnation(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.grant("a", 1)
	s.sessions["a"] = 2
	s.ack("a")
	s.one(s.out, "a", MsgRequest)
	s.ack("a")
	s.none(s.out, "a", MsgRequest)
	s.incs["b"] = Incarnation{Start: 9}
	s.ack("b")
	s.one(s.out, "b", MsgRequest)
	s.ack("b")
	s.none(s.out, "b", MsgRequest)
}

// Section 6: "A node sends KeepAlive to every member each T/4 while it runs, each T/8
// while it waits or holds."
func TestR16_KeepAlivesComeMoreOftenWhileWaiting(t *testing.T) {
	s := newClient(t, 3, nil)
	count := func() int {
		before := s.n.Stats().Sent[MsgKeepAlive]
		s.waitWith(oneT, "a", "b", "c")
		return int(s.n.Stats().Sent[MsgKeepAlive] - before)
	}
	if got := count(); got != 3*4 {
		t.Errorf("idle: want 4 KeepAlives a T to each of 3 members, got %d", got)
	}
	s.lock(1, CallOptions{})
	if got := count(); got != 3*8 {
		t.Errorf("waiting: want 8 KeepAlives a T to each of 3 members, got %d", got)
	}
}

// Section 6: "freshUntil, kept for each incarnation of each member m = the latest echo
// from it + T x (1 - d). A grant counts while that … has not passed".
func TestR17_GrantCountsFromTheEcho(t *testing.T) {
	s := newClient(t, 1, nil)
	s.lock(1, CallOptions{})
	asked := s.now
	s.waitWith(20 * Millisecond)
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, Echo: asked})
	const fresh = 900_000_000
	if e := findEvent(s.events, EventAcquired, 1); e == nil || e.Deadline != asked.Add(fresh) {
		t.Fatalf("want the lock until %d, got %+v", asked.Add(fresh), e)
	}
	s.ack("a") // any exchange renews
	if until, ok := s.n.Deadline(s.now, 1); !ok || until != s.now.Add(fresh) {
		t.Errorf("want the deadline at %d, got %d", s.now.Add(fresh), until)
	}
	s.answer("a", Message{Type: MsgKeepAliveAck, Echo: s.now + 1}) // from the future: not one of ours
	s.answer("a", Message{Type: MsgKeepAliveAck, Echo: asked})
	if until, ok := s.n.Deadline(s.now, 1); !ok || until != s.now.Add(fresh) {
		t.Errorf("want the deadline to stay, got %d", until)
	}
}

// "… and no higher session number of that incarnation is known."
func TestR17_GrantOfAFormerSessionDoesNotCount(t *testing.T) {
	s := newClient(t, 1, nil)
	s.lock(1, CallOptions{})
	s.grant("a", 1)
	s.sessions["a"] = 2
	s.ack("a")
	if e := findEvent(s.events, EventLost, 1); e == nil || e.Loss != LossExpired {
		t.Errorf("want the lease lost as expired, got %+v", e)
	}
}

// Section 7: "What a requester had from a member's former incarnation counts until it is
// stale, not less and not longer."
func TestR17_GrantOfAFormerIncarnationCountsUntilStale(t *testing.T) {
	s := newClient(t, 1, nil)
	s.lock(1, CallOptions{})
	s.grant("a", 1)
	until, _ := s.n.Deadline(s.now, 1)
	s.incs["a"] = Incarnation{Start: 9}
	s.ack("a")
	if got, ok := s.n.Deadline(s.now, 1); !ok || got != until {
		t.Errorf("want the deadline to stay at %d, got %d, %v", until, got, ok)
	}
	s.waitWith(until.Sub(s.now)-1, "a")
	if s.lost(1) {
		t.Error("lost before the grant is stale")
	}
	s.waitWith(1, "a")
	if !s.lost(1) {
		t.Error("want the lease lost when the grant is stale")
	}
}

// freshUntil is "kept for each incarnation of each member": a new one starts with its own.
func TestR17_NewIncarnationCountsFromItsOwnEcho(t *testing.T) {
	s := newClient(t, 1, nil)
	s.lock(1, CallOptions{})
	asked := s.now
	s.waitWith(50 * Millisecond)
	s.ack("a")
	s.incs["a"] = Incarnation{Start: 9}
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, Echo: asked})
	if until, ok := s.n.Deadline(s.now, 1); !ok || until != asked.Add(s.n.tm.fresh) {
		t.Errorf("want the deadline at %d, got %d, %v", asked.Add(s.n.tm.fresh), until, ok)
	}
}

// Section 5, requester, on Inquire: "It waits: give up every grant of that member up to
// that number, seen already or not, note the number, answer Yield."
func TestR18_RequesterYields(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	inquire := func(name string, number uint64) []Message {
		return s.answer(name, Message{Type: MsgInquire, Lock: "L", ID: s.id(), Number: number})
	}
	s.grant("a", 5)
	if m := s.one(inquire("a", 5), "a", MsgYield); m.Number != 5 || m.ID != s.id() || m.ToIncarnation != s.inc("a") {
		t.Errorf("want a Yield of grant 5 to the incarnation that gave it, got %+v", m)
	}
	s.grant("b", 1)
	if s.acquired(1) {
		t.Fatal("holds by a grant that it yielded")
	}
	// "A grant (or a Validate) whose number is not above the highest it has yielded … is
	// answered with that Yield again".
	if m := s.one(s.grant("a", 4), "a", MsgYield); m.Number != 5 {
		t.Errorf("want the Yield of 5 again, got %d", m.Number)
	}
	out := s.answer("a", Message{Type: MsgValidate, Lock: "L", ID: s.id(), Number: 5})
	s.one(out, "a", MsgYield)
	s.none(out, "a", MsgValidateReply)
	s.one(inquire("a", 8), "a", MsgYield) // overtakes its Grant
	s.one(s.grant("a", 8), "a", MsgYield)
	if s.acquired(1) {
		t.Fatal("holds by a grant that it yielded before it came")
	}
	s.grant("a", 9)
	if !s.acquired(1) {
		t.Error("want the lock by the grant after the Yield")
	}
}

// "… one that is lower than the grant in hand is ignored."
func TestR18_LowerGrantIsIgnored(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.grant("a", 9)
	if out := s.grant("a", 8); len(out) > 0 {
		t.Errorf("want silence, got %v", shows(out))
	}
	s.answer("a", Message{Type: MsgInquire, Lock: "L", ID: s.id(), Number: 8})
	s.grant("b", 1)
	if !s.acquired(1) {
		t.Error("want grant 9 to stay when 8 was yielded")
	}
}

// "It holds: remember that others wait, answer by Release in time. … Inquire for anything
// else: Release."
func TestR18_HolderDoesNotYield(t *testing.T) {
	s := newHolder(t)
	out := s.answer("a", Message{Type: MsgInquire, Lock: "L", ID: s.id(), Number: 11})
	if len(out) > 0 {
		t.Errorf("want silence, got %v", shows(out))
	}
	m := s.one(s.answer("a", Message{Type: MsgValidate, Lock: "L", ID: s.id(), Number: 11}), "a", MsgValidateReply)
	if m.State != StateHolding || m.Number != 11 {
		t.Errorf("want holding by grant 11, got %v by %d", m.State, m.Number)
	}
	old := s.id()
	s.n.Unlock(s.now, 1)
	out = s.take()
	s.one(out, "a", MsgRelease)
	s.one(out, "b", MsgRelease)
	for _, which := range []MessageType{MsgInquire, MsgGrant, MsgQueued} {
		m := s.one(s.answer("b", Message{Type: which, Lock: "L", ID: old, Number: 12}), "b", MsgRelease)
		if m.ID != old {
			t.Errorf("%v of what is over: want Release of %v, got %v", which, old, m.ID)
		}
	}
	m = s.one(s.answer("b", Message{Type: MsgValidate, Lock: "L", ID: old, Number: 12}), "b", MsgValidateReply)
	if m.State != StateOver {
		t.Errorf("Validate of what is over: want over, got %v", m.State)
	}
}

func TestR18_WaitingRequestSaysSo(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	m := s.one(s.answer("a", Message{Type: MsgValidate, Lock: "L", ID: s.id(), Number: 3}), "a", MsgValidateReply)
	if m.State != StateWaiting || m.Number != 3 {
		t.Errorf("want waiting, number 3, got %v, %d", m.State, m.Number)
	}
}

// Section 8, rule T: "G contains a tree quorum, and a majority of members each grant or
// vote tree." Of 7 members the root is d, its children b and f.
func TestR19_HoldsByATreeQuorumAndAMajority(t *testing.T) {
	for _, test := range []struct {
		grants, votes string
		treeOnly      bool
		want          bool
	}{
		{grants: "db", votes: "abcdefg"},
		{grants: "cefg", votes: "abcdefg"}, // a majority that is no quorum: it does not meet {a, b, d}
		{grants: "dba", votes: ""},
		{grants: "dba", votes: "dba"}, // each member counts once
		{grants: "dba", votes: "e", want: true},
		{grants: "dbac", votes: "", want: true},
		{grants: "aceg", votes: "", want: true}, // all leaves
		{grants: "dba", treeOnly: true, want: true},
		{grants: "cefg", treeOnly: true},
	} {
		s := newSolo(t, "x", 7, func(c *Config) { c.TreeOnly = test.treeOnly })
		for _, name := range test.votes {
			s.votes[string(name)] = VoteTree
			s.ack(string(name))
		}
		s.lock(1, CallOptions{})
		for i, name := range test.grants {
			s.grant(string(name), uint64(i+1))
		}
		if s.acquired(1) != test.want {
			t.Errorf("grants of %s, votes of %s, TreeOnly %v: want the lock %v", test.grants, test.votes, test.treeOnly, test.want)
		}
	}
}

// Section 8: "One that lacks a majority of votes for the tree asks a tree quorum and
// enough others."; "A requester that sees no tree quorum up asks all members."
func TestR19_AsksEnoughMembers(t *testing.T) {
	asked := func(s *solo) int {
		s.lock(1, CallOptions{})
		count := 0
		for _, m := range s.out {
			if m.Type == MsgRequest {
				count++
			}
		}
		return count
	}
	if got := asked(newClient(t, 7, nil)); got != 3 {
		t.Errorf("with all votes: want a path of 3 asked, got %d", got)
	}
	if got := asked(newSolo(t, "x", 7, nil)); got != 4 {
		t.Errorf("without votes: want a majority of 4 asked, got %d", got)
	}
	if got := asked(newSolo(t, "x", 7, func(c *Config) { c.TreeOnly = true })); got != 3 {
		t.Errorf("with TreeOnly: want a path of 3 asked, got %d", got)
	}
	s := newClient(t, 7, nil)
	for _, name := range []string{"d", "b", "a"} {
		s.n.PeerRefused(s.now, name)
	}
	if got := asked(s); got != 7 {
		t.Errorf("without a path: want all 7 asked, got %d", got)
	}
}
