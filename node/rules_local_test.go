package node

import "testing"

// Section 5, local hand-over: "Once Validate or Inquire told the holder that others wait,
// at most 8 more local hand-overs or T/4, then Release; the remaining local callers ask
// anew, with a new timestamp."
func TestR25_AtMostEightHandOversOnceOthersWait(t *testing.T) {
	for _, which := range []MessageType{MsgValidate, MsgInquire} {
		s := newHolder(t)
		for call := CallID(2); call <= 40; call++ {
			s.lock(call, CallOptions{})
		}
		unlock := func(call CallID) []Message {
			t.Helper()
			if !s.n.Unlock(s.now, call) {
				t.Fatalf("call %d does not hold", call)
			}
			return s.take()
		}
		for call := CallID(1); call <= 20; call++ { // nobody waits elsewhere
			if out := unlock(call); len(out) > 0 || !s.acquired(call+1) {
				t.Fatalf("want a local hand-over to call %d, got %v", call+1, shows(out))
			}
		}
		s.answer("a", Message{Type: which, Lock: "L", ID: s.id(), Number: 11})
		for call := CallID(21); call <= 28; call++ {
			if out := unlock(call); len(out) > 0 || !s.acquired(call+1) {
				t.Fatalf("%v: want hand-over %d to call %d, got %v", which, call-20, call+1, shows(out))
			}
		}
		first, time := s.id(), s.n.locals["L"].req.time
		out := unlock(29)
		if m := s.one(out, "a", MsgRelease); m.ID != first || s.acquired(30) {
			t.Errorf("%v: want Release after 8 hand-overs, got %v", which, shows(out))
		}
		if m := s.one(out, "a", MsgRequest); m.RequestTime <= time || m.ID == first {
			t.Errorf("%v: want the others to ask anew, with a new timestamp and id, got %+v", which, m)
		}
	}
}

func TestR25_NoHandOverLaterThanAQuarterOfT(t *testing.T) {
	for _, test := range []struct {
		wait Duration
		want bool
	}{{oneT/4 - 1, true}, {oneT / 4, false}} {
		s := newHolder(t)
		s.lock(2, CallOptions{})
		s.answer("a", Message{Type: MsgValidate, Lock: "L", ID: s.id(), Number: 11})
		s.waitWith(test.wait, "a", "b", "c")
		s.n.Unlock(s.now, 1)
		s.take()
		if s.acquired(2) != test.want {
			t.Errorf("%d after others were known to wait: want a local hand-over %v", test.wait, test.want)
		}
	}
}

// "TryLock asks as Lock does, for at most two round trips + T/24; … else no quorum."
func TestR26_TryLockTakesTwoRoundTripsAtMost(t *testing.T) {
	s := newClient(t, 3, nil)
	const roundTrip = 20 * Millisecond
	s.wait(roundTrip)
	for _, name := range []string{"a", "b"} {
		s.answer(name, Message{Type: MsgKeepAliveAck, Echo: s.now.Add(-roundTrip)})
	}
	s.n.PeerRefused(s.now, "c")
	s.lock(1, CallOptions{Try: true})
	const most = 2*roundTrip + 41_666_666
	s.waitWith(most-1, "a")
	if _, ok := s.failed(1); ok {
		t.Error("failed before its time is over")
	}
	s.waitWith(1, "a")
	if failure, ok := s.failed(1); !ok || failure != FailNoQuorum {
		t.Errorf("want the call failed for want of a quorum, got %v, %v", failure, ok)
	}
	if len(s.n.requests) != 0 {
		t.Error("want the request given up")
	}
}

// "it is busy when a local caller holds the lock, when some Queued says ownerHolds, or
// when the time is over and anybody queued it".
func TestR26_TryLockIsBusy(t *testing.T) {
	queued := func(s *solo, holds bool) {
		s.answer("a", Message{Type: MsgQueued, Lock: "L", ID: s.id(), Owner: "y", OwnerHolds: holds, Since: 5, Ahead: 1})
	}
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{Try: true})
	queued(s, true)
	e := findEvent(s.events, EventFailed, 1)
	if e == nil || e.Failure != FailBusy || e.Facts.Owner != "y" || !e.Facts.Holds || e.Facts.Since != 5 {
		t.Errorf("want busy by y at once, got %+v", e)
	}
	s.one(s.out, "b", MsgRelease)

	s = newClient(t, 3, nil)
	s.lock(1, CallOptions{Try: true})
	queued(s, false)
	if _, ok := s.failed(1); ok {
		t.Error("failed though nobody is known to hold, and there is time")
	}
	s.waitWith(oneT/4, "a", "b", "c")
	if failure, ok := s.failed(1); !ok || failure != FailBusy {
		t.Errorf("want busy when the time is over, got %v, %v", failure, ok)
	}

	s = newHolder(t)
	s.lock(2, CallOptions{Try: true})
	if failure, ok := s.failed(2); !ok || failure != FailBusy || len(s.out) > 0 {
		t.Errorf("want busy at once while a local caller holds, got %v, %v, %v", failure, ok, shows(s.out))
	}
}

// A caller that tries behind another local one is busy once that one has the lock.
func TestR26_TryLockBehindALocalCaller(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.lock(2, CallOptions{Try: true})
	s.grant("a", 1)
	s.grant("b", 1)
	if failure, ok := s.failed(2); !ok || failure != FailBusy || !s.acquired(1) {
		t.Errorf("want call 2 busy as call 1 has the lock, got %v, %v", failure, ok)
	}
	s = newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.lock(2, CallOptions{Try: true})
	s.waitWith(oneT, "a", "b", "c")
	if failure, ok := s.failed(2); !ok || failure != FailBusy {
		t.Errorf("want call 2 busy, as call 1 stands before it, got %v, %v", failure, ok)
	}
	if _, ok := s.failed(1); ok {
		t.Error("want call 1 to wait on")
	}
}

// "When the caller that caused a request gives up and another waits in the same process,
// the request passes to that one."
func TestLocalCallerTakesOverTheRequest(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{Label: "one"})
	id := s.id()
	s.lock(2, CallOptions{Label: "two"})
	if !s.n.Cancel(s.now, 1) || s.n.Cancel(s.now, 1) {
		t.Error("want call 1 canceled once")
	}
	if out := s.take(); len(out) > 0 || s.id() != id {
		t.Errorf("want the request kept, got %v", shows(out))
	}
	s.grant("a", 1)
	s.grant("b", 1)
	if !s.acquired(2) || s.acquired(1) {
		t.Error("want the lock for call 2")
	}
	if s.n.Cancel(s.now, 2) || s.n.Cancel(s.now, 9) {
		t.Error("want no Cancel of a lease or of nothing")
	}
	if s.n.Unlock(s.now, 9) {
		t.Error("want no Unlock of nothing")
	}
}

// "the error tells busy, and by whom, from unreachable, and which members".
func TestFactsOfACallThatGivesUp(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{Watch: true})
	s.answer("b", Message{Type: MsgQueued, Lock: "L", ID: s.id(), Owner: "y", OwnerHolds: true, Ahead: 2})
	if e := findEvent(s.events, EventWaiting, 1); e == nil || e.Facts.Owner != "y" || e.Facts.Ahead != 2 {
		t.Errorf("want to be told of y, got %+v", e)
	}
	before := len(s.events)
	s.answer("b", Message{Type: MsgQueued, Lock: "L", ID: s.id(), Owner: "y", OwnerHolds: true, Ahead: 2, Since: 9})
	if len(s.events) != before {
		t.Error("told again though nothing changed but the time")
	}
	s.n.PeerRefused(s.now, "c")
	s.take()
	s.n.Cancel(s.now, 1)
	s.take()
	e := findEvent(s.events, EventFailed, 1)
	if e == nil || e.Failure != FailBusy || e.Facts.Owner != "y" || len(e.Facts.Missing) != 1 || e.Facts.Missing[0] != "c" {
		t.Errorf("want busy by y, c missing, got %+v", e)
	}
}

// Nothing else has to happen for a try to end in time.
func TestR26_TryLockEndsByItself(t *testing.T) {
	s := newClient(t, 3, nil)
	s.waitWith(oneT/4, "a", "b", "c")
	s.lock(1, CallOptions{Try: true})
	s.ack("a", "b", "c") // up, but their answers to the Request are lost; the round trip is 0
	s.waitWith(41_666_666, "a", "b", "c")
	if failure, ok := s.failed(1); !ok || failure != FailNoQuorum {
		t.Errorf("want the call failed after T/24, got %v, %v", failure, ok)
	}
}
