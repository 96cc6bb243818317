package node

import "testing"

// Section 6: "Member: it ends a session that it has not heard from for T x (1 + d): it
// drops that node's grants and queued requests, and gives the next message of that
// node a new session number."
func TestR10_SessionEndsAfterSilence(t *testing.T) {
	const session = Duration(1_100_000_000) // T x (1 + d)
	s := newMember(t, nil)
	before := s.one(s.request("x", 1, 10), "x", MsgGrant)
	s.request("w", 1, 15)
	s.wait(session / 2)
	s.request("y", 1, 20) // heard later than the others
	s.none(s.wait(session-session/2-1), "y", MsgGrant)
	out := s.wait(1)
	s.one(out, "y", MsgGrant)
	if len(s.n.locks["L"].queue) != 0 || len(s.n.sessions) != 2 { // its own, and that of y
		t.Errorf("want x and w forgotten, got %d in the queue, %d sessions", len(s.n.locks["L"].queue), len(s.n.sessions))
	}
	after := s.one(s.request("x", 1, 10), "x", MsgQueued)
	if after.Session <= before.Session {
		t.Errorf("want a session number above %d, got %d", before.Session, after.Session)
	}
}

// "Only messages from requester to member renew a session."
func TestR10_EveryMessageToAMemberRenewsTheSession(t *testing.T) {
	for _, m := range []Message{
		{Type: MsgKeepAlive},
		{Type: MsgRequest, Lock: "M", ID: RequestID{Counter: 2}, RequestTime: 3},
		{Type: MsgYield, Lock: "M", ID: RequestID{Counter: 2}},
		{Type: MsgRelease, Lock: "M", ID: RequestID{Counter: 2}},
		{Type: MsgValidateReply, Lock: "M", ID: RequestID{Counter: 2}, State: StateWaiting},
		{Type: MsgCommit, Lock: "M", ID: RequestID{Counter: 2}, Token: 1},
		{Type: MsgReadFloors, Round: 1},
	} {
		s := newMember(t, nil)
		s.request("x", 1, 10)
		s.wait(s.n.tm.session - 1)
		sent := s.now
		s.ask("x", m)
		s.wait(s.n.tm.session - 1)
		s.ask("x", Message{Type: MsgKeepAlive, Sent: 5}) // late, sent long ago
		if s.n.locks["L"] == nil {
			t.Errorf("%v has not renewed the session", m.Type)
		}
		if echo := s.one(s.all, "x", MsgKeepAliveAck).Echo; echo != sent {
			t.Errorf("after %v and an older message: want the echo of the latest send time, %d, got %d", m.Type, sent, echo)
		}
	}
}

// Section 4: "A message addressed to another incarnation of its receiver is dropped, but
// for Request, KeepAlive and ReadFloors, which are handled as usual."
func TestR11_MemberDropsWhatIsForAFormerIncarnation(t *testing.T) {
	former := Incarnation{Start: 0, Random: 1}
	s := newMember(t, nil)
	granted := s.one(s.ask("x", Message{
		Type: MsgRequest, ToIncarnation: former, Lock: "L", ID: RequestID{Counter: 1}, RequestTime: 10,
	}), "x", MsgGrant)
	s.request("y", 1, 5)
	for _, m := range []Message{
		{Type: MsgYield, Number: granted.Number},
		{Type: MsgRelease},
		{Type: MsgValidateReply, Number: granted.Number, State: StateOver},
		{Type: MsgCommit, Token: 5000},
		{Type: MsgGoodbye},
	} {
		m.Lock, m.ID.Counter, m.ToIncarnation = "L", 1, former
		if out := s.ask("x", m); len(out) > 0 || s.n.locks["L"].grant.session.key.name != "x" {
			t.Errorf("%v to a former incarnation: want no effect, got %v", m.Type, shows(out))
		}
	}
	s.ask("x", Message{Type: MsgKeepAlive, ToIncarnation: former})
	s.one(s.all, "x", MsgKeepAliveAck)
	s.one(s.ask("x", Message{Type: MsgReadFloors, ToIncarnation: former}), "x", MsgFloors)
}

// The receiver's incarnation may be "0: not known yet". A Release or Goodbye ends what
// its sender itself asked for, so it counts all the same; a Yield or Commit does not.
func TestR11_ReleaseToAnUnknownIncarnationCounts(t *testing.T) {
	s := newMember(t, nil)
	send := func(m Message) []Message {
		m = s.fill("x", m)
		m.ToIncarnation, m.Sent, m.Lock, m.ID = Incarnation{}, s.now, "L", RequestID{s.inc("x"), 1}
		s.n.Step(s.now, m)
		return s.take()
	}
	granted := s.one(send(Message{Type: MsgRequest, RequestTime: 10}), "x", MsgGrant)
	s.request("y", 1, 5)
	s.none(send(Message{Type: MsgYield, Number: granted.Number}), "y", MsgGrant)
	s.none(send(Message{Type: MsgCommit, Token: 5000}), "x", MsgCommitted)
	s.one(send(Message{Type: MsgRelease}), "y", MsgGrant)
	send(Message{Type: MsgGoodbye})
	if out := s.request("x", 2, 10); len(out) > 0 {
		t.Errorf("after a Goodbye: want silence, got %v", shows(out))
	}
}

// "Everything else of a lower incarnation or session number is dropped."
func TestR11_RequesterDropsWhatIsOfFormerIncarnationsAndSessions(t *testing.T) {
	newIn := func() *solo {
		s := newSolo(t, "x", 1, func(c *Config) { c.TreeOnly = true })
		s.sessions["a"] = 5
		s.ack("a")
		s.lock(1, CallOptions{})
		return s
	}
	s := newIn()
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, Session: 4})
	if s.acquired(1) {
		t.Error("a Grant of a former session counts")
	}
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, FromIncarnation: Incarnation{Start: 1}})
	if s.acquired(1) {
		t.Error("a Grant of a former incarnation counts")
	}
	s.answer("a", Message{Type: MsgGrant, Lock: "L", ID: s.id(), Number: 1, ToIncarnation: Incarnation{Start: 1}})
	if s.acquired(1) {
		t.Error("a Grant to another incarnation counts")
	}
	s.grant("a", 1)
	if !s.acquired(1) {
		t.Error("the right Grant does not count")
	}
}

// Nor does what is of a former session or incarnation renew what the present one gave, or
// make the requester yield: its numbers started anew.
func TestR11_LateAnswersDoNotRenewOrAskBack(t *testing.T) {
	for name, header := range map[string]Message{
		"session":     {Session: 4},
		"incarnation": {FromIncarnation: Incarnation{Start: 1}},
	} {
		s := newSolo(t, "x", 3, func(c *Config) { c.TreeOnly = true })
		s.sessions["a"] = 5
		s.lock(1, CallOptions{})
		s.grant("a", 3)
		inquire := header
		inquire.Type, inquire.Lock, inquire.ID, inquire.Number = MsgInquire, "L", s.id(), 3
		if out := s.answer("a", inquire); len(out) > 0 {
			t.Errorf("Inquire of a former %s: want silence, got %v", name, shows(out))
		}
		s.grant("b", 1)
		held, ok := s.n.Deadline(s.now, 1)
		if !ok {
			t.Fatalf("%s: want the lock", name)
		}
		s.wait(10 * Millisecond)
		s.ack("b")
		late := header
		late.Type = MsgKeepAliveAck
		s.answer("a", late)
		if until, _ := s.n.Deadline(s.now, 1); until != held {
			t.Errorf("an answer of a former %s: want the deadline to stay at %d, got %d", name, held, until)
		}
	}
}

// Section 4: "A Request, KeepAlive or ReadFloors of a lower incarnation than the highest
// known is answered by NotReady that names that one; everything else … is dropped."
func TestR12_OpeningMessagesOfAFormerIncarnationAreAnswered(t *testing.T) {
	s := newMember(t, nil)
	s.keepAlive("x")
	former := Incarnation{Start: 1, Random: 9}
	for _, which := range []MessageType{MsgRequest, MsgKeepAlive, MsgReadFloors} {
		out := s.ask("x", Message{Type: which, FromIncarnation: former, Lock: "L", ID: RequestID{Counter: 1}})
		m := s.one(out, "x", MsgNotReady)
		if m.Reason != ReasonOldIncarnation || m.Other != s.inc("x") || m.ToIncarnation != former || len(out) != 1 {
			t.Errorf("%v: want NotReady that names %v to %v, got %+v", which, s.inc("x"), former, m)
		}
	}
	for _, which := range []MessageType{MsgRelease, MsgYield, MsgGoodbye, MsgCommit, MsgValidateReply} {
		out := s.ask("x", Message{Type: which, FromIncarnation: former, Lock: "L", ID: RequestID{Counter: 1}, Token: 5000})
		if len(out) > 0 {
			t.Errorf("%v: want silence, got %v", which, shows(out))
		}
	}
	if len(s.n.sessions) != 2 {
		t.Errorf("want no session for the former incarnation, got %d sessions", len(s.n.sessions))
	}
}

// Section 6: "A newer incarnation of x is a different requester: it does not void the
// older one's grants; the older one's session does, in its time."
func TestR12_NewIncarnationDoesNotVoidTheOlderOnesGrants(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.incs["x"] = Incarnation{Start: 3}
	out := s.request("x", 1, 20)
	s.none(out, "x", MsgGrant)
	s.one(out, "x", MsgQueued)
	for range 9 {
		s.wait(s.n.tm.session / 9)
		s.keepAlive("x")
	}
	s.wait(9)
	if g := s.n.locks["L"].grant; g.session.key.inc != s.inc("x") {
		t.Errorf("want the grant with the new incarnation after T(1+d), got %v", g.session.key)
	}
}

// Section 7: "it is quarantined for T x (1 + d) from its start: it answers KeepAlive
// (without a vote) and NotReady, grants nothing, holding or not, and takes no Commit."
func TestR13_QuarantineAfterTheStart(t *testing.T) {
	s := newSolo(t, "b", 3, nil)
	check := func() {
		t.Helper()
		for _, holding := range []bool{false, true} {
			m := s.one(s.ask("x", Message{Type: MsgRequest, Lock: "L", ID: RequestID{Counter: 1}, Holding: holding}), "x", MsgNotReady)
			if m.Reason != ReasonQuarantined || m.Vote != VoteNone {
				t.Errorf("want NotReady, quarantined, without a vote, got %v, vote %v", m.Reason, m.Vote)
			}
		}
		m := s.one(s.ask("x", Message{Type: MsgCommit, Lock: "L", ID: RequestID{Counter: 1}, Token: 1 << 40}), "x", MsgNotReady)
		if m.Reason != ReasonQuarantined {
			t.Errorf("want Commit refused as quarantined, got %v", m.Reason)
		}
		s.keepAlive("x")
		if m := s.one(s.all, "x", MsgKeepAliveAck); m.Vote != VoteNone {
			t.Errorf("want a KeepAliveAck without a vote, got %v", m.Vote)
		}
	}
	check()
	s.wait(1_099_999_999) // T x (1 + d) less one nanosecond
	check()
	s.wait(1)
	if m := s.one(s.request("x", 1, 10), "x", MsgGrant); m.Vote != VoteTree {
		t.Errorf("want a Grant with a vote for the tree, got %v", m.Vote)
	}
}

// "A single member that serves no clients (a setting) skips the wait."
func TestR13_StandaloneSkipsTheWaitAndServesNobody(t *testing.T) {
	s := newSolo(t, "a", 1, func(c *Config) { c.Standalone = true })
	s.lock(1, CallOptions{})
	if !s.acquired(1) {
		t.Error("want the lock at once")
	}
	if m := s.one(s.request("x", 1, 1), "x", MsgNotReady); m.Reason != ReasonNotMember {
		t.Errorf("want a client refused, got %v", m.Reason)
	}
	s = newSolo(t, "a", 1, nil)
	s.lock(1, CallOptions{})
	s.wait(s.n.tm.quarantine - 1)
	if s.acquired(1) {
		t.Error("a single member without the setting must wait: it cannot know what it granted before")
	}
	s.wait(s.n.tm.repeat)
	if !s.acquired(1) {
		t.Error("want the lock after the quarantine")
	}
}

// Section 8: "It gives the other vote only T/3 x (1 + d) after its last answer with the
// old one; until then it votes nothing, or the old one again if the wish is taken back."
func TestR14_NoOtherVoteBeforeTheSilence(t *testing.T) {
	s := newMember(t, nil)
	vote := func(name string, want bool) Vote {
		s.ask(name, Message{Type: MsgKeepAlive, NeedMajority: want})
		return s.one(s.all, name, MsgKeepAliveAck).Vote
	}
	expect := func(what string, got, want Vote) {
		t.Helper()
		if got != want {
			t.Errorf("%s: want the vote %v, got %v", what, want, got)
		}
	}
	const silence = 366_666_667 // T/3 x (1 + d), rounded up
	s.n.endSession(s.n.sessions[sessionKey{"b", s.n.inc}])
	vote("x", false)
	s.wait(silence / 2) // in which b itself gets votes from b
	last := s.n.votedAt
	expect("the wish comes", vote("x", true), VoteNone)
	expect("taken back", vote("x", false), VoteTree)
	if s.n.votedAt == last {
		t.Fatal("the vote that was given again does not count as the last one")
	}
	expect("the wish comes again", vote("x", true), VoteNone)
	s.wait(silence - 1)
	expect("one nanosecond early", vote("x", true), VoteNone)
	s.wait(1)
	expect("after the silence", vote("x", true), VoteMajority)
	expect("still", vote("x", true), VoteMajority)
	expect("back", vote("x", false), VoteNone)
	s.wait(silence)
	expect("back after the silence", vote("x", false), VoteTree)
}

// "(Of several KeepAlives the one with the latest send time counts.)"
func TestR14_LateKeepAliveDoesNotChangeTheWish(t *testing.T) {
	s := newMember(t, nil)
	s.ask("x", Message{Type: MsgKeepAlive, NeedMajority: true, Sent: 200})
	s.ask("x", Message{Type: MsgKeepAlive, Sent: 100})
	if s.n.wishes != 1 {
		t.Errorf("want the later wish to stand, got %d", s.n.wishes)
	}
	s.wait(s.n.tm.session)
	if s.n.wishes != 0 {
		t.Error("want the wish to end with its session")
	}
}

// "A vote counts for T/3 x (1 - d) from its own echo; … other answers never move them."
func TestR14_VoteCountsFromItsEcho(t *testing.T) {
	s := newSolo(t, "x", 3, nil)
	sent := s.now
	s.votes["a"] = VoteTree
	s.wait(50 * Millisecond)
	s.answer("a", Message{Type: MsgKeepAliveAck, Echo: sent})
	s.votes["a"] = VoteNone
	s.ack("a")
	s.answer("a", Message{Type: MsgKeepAliveAck, Vote: VoteMajority})
	const counts = 300_000_000 // T/3 x (1 - d)
	if until := s.n.peers[0].treeUntil; until != sent.Add(counts) {
		t.Errorf("want the vote to count for %d from its echo, got %d", int64(counts), until.Sub(sent))
	}
}

// Section 4: "Goodbye: a clean shutdown: ends the session at once; what comes from that
// incarnation for T x (1 + d) after it is ignored."
func TestR15_GoodbyeEndsTheSession(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.ask("x", Message{Type: MsgKeepAlive, NeedMajority: true})
	s.wait(s.n.tm.session / 2)
	s.request("y", 1, 20)
	s.one(s.ask("x", Message{Type: MsgGoodbye}), "y", MsgGrant)
	if s.n.wishes != 0 {
		t.Error("want the wish for majority mode gone")
	}
	s.wait(s.n.tm.session - 1)
	if out := s.request("x", 2, 5); len(out) > 0 {
		t.Errorf("after the Goodbye: want silence, got %v", shows(out))
	}
	s.wait(1)
	if out := s.request("x", 2, 5); len(out) == 0 {
		t.Error("T(1+d) after the Goodbye: want an answer")
	}
}

// "… a clean shutdown releases everything", and says no more.
func TestR15_ShutdownSaysGoodbye(t *testing.T) {
	c := readyCluster(t, 3, nil)
	held := c.lock("a", "L")
	c.run(5 * Millisecond)
	c.mustAcquire("a", held)
	waiting := c.lock("c", "L")
	c.run(5 * Millisecond)
	c.reset()
	c.nodes["a"].Shutdown(c.clock("a"))
	c.collect("a")
	if _, by := c.count(); by[MsgGoodbye] != 2 {
		t.Errorf("want Goodbye said to both others, got %v", by)
	}
	if e := c.event("a", EventLost, held); e == nil || e.Loss != LossClosed {
		t.Errorf("want the lease lost as closed, got %+v", e)
	}
	c.run(5 * Millisecond)
	c.mustAcquire("c", waiting)
	c.reset()
	late := c.lock("a", "L")
	if e := c.event("a", EventFailed, late); e == nil || e.Failure != FailClosed {
		t.Errorf("want a call after the shutdown to fail as closed, got %+v", e)
	}
	c.run(3 * oneT)
	for i := range c.sent {
		if m := &c.sent[i]; m.From == "a" && !m.Type.FromMember() {
			t.Fatalf("said after the Goodbye: %s", show(m))
		}
	}
	if s := c.nodes["b"].sessions; len(s) != 2 {
		t.Errorf("want member b to have forgotten a, got %d sessions", len(s))
	}
}
