package node

import "testing"

// Section 6: "When it passes, the lock is lost for good: … Release goes to all that were
// asked … A later answer does not bring it back: check the time first, then the input."
func TestR20_LostForGoodAtTheDeadline(t *testing.T) {
	s := newHolder(t)
	until, _ := s.n.Deadline(s.now, 1)
	s.wait(until.Sub(s.now) - 1)
	if s.lost(1) {
		t.Fatal("lost before the deadline")
	}
	s.now++
	s.answer("a", Message{Type: MsgKeepAliveAck})
	s.answer("b", Message{Type: MsgKeepAliveAck})
	e := findEvent(s.events, EventLost, 1)
	if e == nil || e.Loss != LossCutOff {
		t.Fatalf("want the lease lost at its deadline as cut off, got %+v", e)
	}
	if _, ok := s.n.Deadline(s.now, 1); ok {
		t.Error("want no deadline after the loss")
	}
	if s.n.Unlock(s.now, 1) {
		t.Error("want Unlock to report the loss")
	}
}

// The holder's time is over though nothing woke it: the next call finds out.
func TestR20_EveryCallChecksTheTimeFirst(t *testing.T) {
	late := map[string]func(s *solo){
		"Unlock": func(s *solo) {
			if s.n.Unlock(s.now, 1) {
				t.Error("Unlock after the deadline reports that the lock was held")
			}
		},
		"Deadline":  func(s *solo) { s.n.Deadline(s.now, 1) },
		"WantToken": func(s *solo) { s.n.WantToken(s.now, 1) },
		"Lock":      func(s *solo) { s.n.Lock(s.now, 2, "M", CallOptions{}) },
		"Tick":      func(s *solo) { s.n.Tick(s.now) },
	}
	for name, call := range late {
		s := newHolder(t)
		until, _ := s.n.Deadline(s.now, 1)
		s.now = until
		call(s)
		s.take()
		if !s.lost(1) {
			t.Errorf("%s at the deadline: want the lease lost", name)
		}
	}
}

// A Release goes "to all that were asked", also those substituted away.
func TestR20_ReleaseGoesToAllThatWereAsked(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.n.PeerRefused(s.now, "a")
	s.one(s.take(), "c", MsgRequest)
	if !s.n.Cancel(s.now, 1) {
		t.Fatal("want the call canceled")
	}
	out := s.take()
	for _, name := range []string{"a", "b", "c"} {
		s.one(out, name, MsgRelease)
	}
	if failure, ok := s.failed(1); !ok || failure != FailNoQuorum {
		t.Errorf("want the call failed for want of a quorum, got %v %v", failure, ok)
	}
}

// The node's own member cannot bring its lease back after a pause: its KeepAlive to itself,
// which is due as well, comes after the look at the time.
func TestR20_OwnMemberDoesNotRenewAfterAPause(t *testing.T) {
	s := newSolo(t, "a", 1, func(c *Config) { c.Standalone = true })
	s.lock(1, CallOptions{})
	if !s.acquired(1) {
		t.Fatal("want the lock")
	}
	s.wait(3 * oneT)
	if s.lost(1) {
		t.Fatal("lost without a pause")
	}
	s.now += Instant(oneT)
	s.n.Tick(s.now)
	s.take()
	if !s.lost(1) {
		t.Error("want the lease lost after a pause of T")
	}
}

// A caller that holds long is told of the lock when the grants of a majority carry it, or
// T/8 later; it can be canceled until then, and a lock lost until then is asked for anew.
func TestR20_LongHoldIsToldOnceItIsWellHeld(t *testing.T) {
	holdByVotes := func(echo Instant, s *solo) {
		for _, name := range letters(7) {
			s.answer(name, Message{Type: MsgKeepAliveAck, Echo: echo})
		}
		s.lock(1, CallOptions{LongHold: true})
		for i, name := range []string{"a", "b", "d"} {
			s.grant(name, uint64(i+1))
		}
	}
	s := newClient(t, 7, nil)
	holdByVotes(s.now, s)
	if s.acquired(1) {
		t.Error("told by votes alone, which last 0.3 T")
	}
	s.grant("c", 1)
	if !s.acquired(1) {
		t.Error("want to be told by the grants of a majority")
	}

	s = newClient(t, 7, nil)
	holdByVotes(s.now, s)
	s.waitWith(oneT/8-1, letters(7)...)
	if s.acquired(1) {
		t.Error("told before T/8")
	}
	s.waitWith(1, letters(7)...)
	if !s.acquired(1) {
		t.Error("want to be told after T/8")
	}

	s = newClient(t, 7, nil)
	holdByVotes(s.now, s)
	if !s.n.Cancel(s.now, 1) {
		t.Error("want the call canceled before it is told")
	}
	if out := s.take(); len(to(out, "a", MsgRelease)) != 1 || s.acquired(1) || s.lost(1) {
		t.Errorf("want Release, and no word of the lease, got %v", shows(out))
	}

	s = newClient(t, 7, nil)
	holdByVotes(s.now, s)
	before := s.id()
	s.sessions["a"] = 2
	s.answer("a", Message{Type: MsgKeepAliveAck})
	if s.lost(1) || s.acquired(1) || s.id() == before {
		t.Errorf("want the lock asked for anew, lost %v, told %v", s.lost(1), s.acquired(1))
	}
}
