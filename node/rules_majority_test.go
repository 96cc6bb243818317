package node

import "testing"

// says reports whether the latest KeepAlive to a member asks for votes for the
// majority, and whether there was one.
func says(out []Message, name string) (need, said bool) {
	for _, m := range out {
		if m.Type == MsgKeepAlive && m.To == name {
			need, said = m.NeedMajority, true
		}
	}
	return need, said
}

// Section 8: "A requester that sees no tree quorum up asks all members (the broadcast).
// It says needMajority, at once and in its KeepAlives, while it sees no tree quorum up
// … or, when it does not hold, for 2T after it last lacked one."
func TestR33_AsksForVotesWhileNoTreeQuorumIsUp(t *testing.T) {
	s := newClient(t, 7, nil)
	s.lock(1, CallOptions{})
	for _, name := range []string{"d", "b"} {
		s.n.PeerRefused(s.now, name)
		if need, _ := says(s.n.out.Messages, "c"); need {
			t.Fatalf("asks for the majority with %s down: a quorum of the tree is up", name)
		}
		s.take()
	}
	s.n.PeerRefused(s.now, "a") // the whole path d, b, a
	s.take()
	if need, said := says(s.all, "c"); !need || !said {
		t.Errorf("with no path left: want it said at once, got a KeepAlive %v that asks %v", said, need)
	}
	if got := s.n.locals["L"].req.asked.Len(); got != 7 {
		t.Errorf("with no path left: %d members were asked, want all 7", got)
	}
	s.wait(s.n.tm.keepBusy)
	if need, said := says(s.all, "c"); !need || !said {
		t.Errorf("in the next KeepAlive: %v, asks %v", said, need)
	}
	s.ack("c", "e", "f", "g", "d") // d is back
	s.waitWith(s.n.tm.need-1, "c", "d", "e", "f", "g")
	if !s.n.needsMajority() {
		t.Error("2T after the path came back are not over: want it to ask on")
	}
	s.waitWith(s.n.tm.repeat, "c", "d", "e", "f", "g")
	if s.n.needsMajority() {
		t.Error("2T after the path came back: want it to have stopped")
	}
}

// "… after that until it holds under T by grants of members that are up and votes that
// they still give (one that has held under M only: by grants alone)".
func TestR33_HolderAsksUntilItHoldsByTheTreeAgain(t *testing.T) {
	for _, byMajority := range []bool{false, true} {
		s := newClient(t, 7, nil)
		s.lock(1, CallOptions{})
		for i, name := range []string{"d", "b", "a"} {
			s.grant(name, uint64(i+1))
		}
		if !s.acquired(1) {
			t.Fatal("want the lock by a path and votes")
		}
		for _, name := range []string{"d", "b", "a"} {
			s.n.PeerRefused(s.now, name)
		}
		s.take()
		if !s.n.needsMajority() {
			t.Fatal("no quorum of the tree is up: want it to ask for the majority")
		}
		s.n.locals["L"].req.byMajority = byMajority
		s.ack("d")
		if !s.n.needsMajority() {
			t.Error("a path is up, but its grants are not in hand: want it to ask on")
		}
		s.ack("b", "a")
		if s.n.needsMajority() != byMajority {
			t.Errorf("holds by the path and votes again, held by M only before %v: asks on %v, want %v",
				byMajority, !byMajority, byMajority)
		}
		s.grant("e", 9) // a majority of grants with the path in it
		s.waitWith(s.n.tm.holderRepeat, "a", "b", "d", "e", "f", "g")
		if s.n.needsMajority() {
			t.Errorf("holds by grants alone, held by M only before %v: want it to have stopped", byMajority)
		}
	}
}

// "T/24 while it holds and says needMajority (a vote counts for T/3 only)".
func TestR33_HolderByMajorityKeepsItsVotesFresh(t *testing.T) {
	s := newSolo(t, "x", 7, nil)
	s.lock(1, CallOptions{})
	for _, name := range []string{"d", "b", "a"} {
		s.n.PeerRefused(s.now, name)
	}
	for i, name := range []string{"c", "e", "f", "g"} {
		s.votes[name] = VoteMajority
		s.grant(name, uint64(i+1))
	}
	if !s.acquired(1) {
		t.Fatal("want the lock by M")
	}
	begin, count := s.now, 0
	for s.now < begin.Add(s.n.tm.ttl) {
		s.wait(s.n.Wake().Sub(s.now))
		if _, said := says(s.all, "c"); said {
			count++
			s.ack("c", "e", "f", "g")
		}
	}
	if count < 23 || count > 26 {
		t.Errorf("%d KeepAlives in T, want 24", count)
	}
	if s.lost(1) {
		t.Error("lost though all votes were renewed")
	}
}

// Section 8, rule M: "a majority of members each grant and vote majority".
func TestR34_HoldsByAMajorityOfGrantsWithVotes(t *testing.T) {
	for _, test := range []struct {
		grants, votes string
		treeOnly      bool
		want          bool
	}{
		{grants: "cefg", votes: "cefg", want: true},
		{grants: "cefg", votes: "cef"},    // the vote of one is missing
		{grants: "cef", votes: "abcdefg"}, // a grant is missing
		{grants: "cefg", votes: "abde"},   // grants and votes of different members do not add up
		{grants: "abcdefg", votes: ""},    // holds by T, not by M
		{grants: "cefg", votes: "cefg", treeOnly: true},
	} {
		s := newSolo(t, "x", 7, func(c *Config) { c.TreeOnly = test.treeOnly })
		for _, name := range test.votes {
			s.votes[string(name)] = VoteMajority
			s.ack(string(name))
		}
		s.lock(1, CallOptions{})
		for i, name := range test.grants {
			s.grant(string(name), uint64(i+1))
		}
		limit := holdLimits{}
		if l := s.n.locals["L"]; l != nil && l.req != nil {
			limit = s.n.deadline(l.req)
		}
		if got := limit.majority > s.now && !test.treeOnly; got != test.want {
			t.Errorf("grants of %s, votes of %s, TreeOnly %v: holds by M %v, want %v", test.grants, test.votes, test.treeOnly, got, test.want)
		}
		if test.want && !s.acquired(1) {
			t.Errorf("grants of %s, votes of %s: want the lock", test.grants, test.votes)
		}
	}
}

// A vote for the majority counts for T/3(1-d) from its own echo; an answer with
// another vote, or with none, does not move that time.
func TestR34_VoteOfTheMajorityRunsOut(t *testing.T) {
	s := newSolo(t, "x", 7, nil)
	for _, name := range []string{"c", "e", "f", "g"} {
		s.votes[name] = VoteMajority
		s.ack(name)
	}
	s.lock(1, CallOptions{})
	for i, name := range []string{"c", "e", "f", "g"} {
		s.grant(name, uint64(i+1))
	}
	until, held := s.n.Deadline(s.now, 1)
	if want := s.now.Add(s.n.tm.vote); !held || until != want {
		t.Fatalf("deadline %d, held %v; want %d, as far as votes last", until, held, want)
	}
	s.wait(s.n.tm.vote / 2)
	s.votes["c"] = VoteNone
	s.ack("c", "e", "f", "g")
	if got, _ := s.n.Deadline(s.now, 1); got != until {
		t.Errorf("deadline %d after an answer of c without its vote, want %d as before", got, until)
	}
}

// A path that is up again does not end it while too few still vote for the tree.
func TestR33_PathWithoutVotesIsNotEnough(t *testing.T) {
	s := newClient(t, 7, nil)
	s.lock(1, CallOptions{})
	for i, name := range []string{"d", "b", "a"} {
		s.grant(name, uint64(i+1))
		s.n.PeerRefused(s.now, name)
	}
	for _, name := range []string{"c", "e", "f", "g"} {
		s.votes[name] = VoteMajority
	}
	s.ack("c", "e", "f", "g", "a", "b", "d")
	if !s.n.needsMajority() {
		t.Error("three grants of the path and no other vote for the tree: want it to ask on")
	}
}

// Between two locks the node goes on to ask, so that the second need not wait for
// the votes to change twice.
func TestR33_AsksOnWithoutARequest(t *testing.T) {
	s := newClient(t, 7, nil)
	s.lock(1, CallOptions{})
	for _, name := range []string{"d", "b", "a"} {
		s.n.PeerRefused(s.now, name)
	}
	lacked := s.now
	s.n.Cancel(s.now, 1)
	s.take()
	for s.now < lacked.Add(s.n.tm.need)-1 {
		s.waitWith(min(s.n.tm.keepIdle, lacked.Add(s.n.tm.need).Sub(s.now)-1), "c", "e", "f", "g")
		if !s.n.saidNeed {
			t.Fatalf("%d after it lacked a path: stopped, want it to ask for 2T", s.now.Sub(lacked))
		}
	}
	s.waitWith(s.n.tm.keepIdle, "c", "e", "f", "g")
	if s.n.saidNeed {
		t.Error("2T later: want it to have stopped")
	}
}
