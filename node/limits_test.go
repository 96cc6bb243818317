package node

import (
	"fmt"
	"testing"
)

// A full queue refuses who comes, and nobody else. Section 5: a call "fails at once only
// for … a full queue".
func TestR32_QueueHasALimit(t *testing.T) {
	s := newMember(t, func(c *Config) { c.Limits.Queue = 2 })
	s.request("x", 1, 50)
	s.request("y", 1, 60)
	s.request("z", 1, 70)
	if m := s.one(s.request("w", 1, 10), "w", MsgNotReady); m.Reason != ReasonQueueFull || m.Lock != "L" || m.ID.Counter != 1 {
		t.Errorf("want NotReady, queue full, got %+v", m)
	}
	s.one(s.request("y", 1, 60), "y", MsgQueued) // repeated
	s.one(s.request("z", 2, 40), "z", MsgQueued) // in place of its earlier one
	s.one(s.request("x", 2, 80), "z", MsgGrant)  // there is room again for x itself
	s.one(s.request("w", 1, 10), "w", MsgNotReady)
	s.release("x", 2)
	s.one(s.request("w", 1, 10), "w", MsgQueued)
}

func TestR32_FullQueueFailsTheCallAtOnce(t *testing.T) {
	s := newClient(t, 3, nil)
	s.lock(1, CallOptions{})
	s.lock(2, CallOptions{Try: true})
	out := s.answer("a", Message{Type: MsgNotReady, Lock: "L", ID: s.id(), Reason: ReasonQueueFull})
	for call := CallID(1); call <= 2; call++ {
		if failure, ok := s.failed(call); !ok || failure != FailOverloaded {
			t.Errorf("call %d: want it failed as overloaded, got %v, %v", call, failure, ok)
		}
	}
	s.one(out, "b", MsgRelease)
	if !s.n.Status(s.now).Peers[0].Up {
		t.Error("want a up: its queue is full for one lock only")
	}
}

// A holder that repairs its quorum has its lock, whatever a full queue says.
func TestR32_FullQueueDoesNotEndALease(t *testing.T) {
	s := newHolder(t)
	s.n.PeerRefused(s.now, "a")
	s.take()
	s.answer("c", Message{Type: MsgNotReady, Lock: "L", ID: s.id(), Reason: ReasonQueueFull})
	if s.lost(1) {
		t.Error("want the lease kept")
	}
}

func TestR32_LocksHaveALimit(t *testing.T) {
	s := newMember(t, func(c *Config) { c.Limits.Locks = 2 })
	request := func(lock string) []Message {
		return s.ask("x", Message{Type: MsgRequest, Lock: lock, ID: RequestID{Counter: 1}, RequestTime: 1})
	}
	s.one(request("1"), "x", MsgGrant)
	s.one(request("2"), "x", MsgGrant)
	if m := s.one(request("3"), "x", MsgNotReady); m.Reason != ReasonQueueFull || m.Lock != "3" {
		t.Errorf("want NotReady, got %+v", m)
	}
	s.ask("x", Message{Type: MsgRelease, Lock: "1", ID: RequestID{Counter: 1}})
	s.one(request("3"), "x", MsgGrant)
}

func TestR32_SessionsHaveALimit(t *testing.T) {
	s := newMember(t, func(c *Config) { c.Limits.Clients = 2 })
	s.one(s.request("x", 1, 1), "x", MsgGrant)
	s.one(s.request("y", 1, 2), "y", MsgQueued)
	if m := s.one(s.request("z", 1, 3), "z", MsgNotReady); m.Reason != ReasonTooManySessions || m.Session != 0 {
		t.Errorf("want NotReady, too many sessions, got %+v", m)
	}
	if out := s.release("z", 1); len(out) > 0 {
		t.Errorf("want silence, got %v", shows(out))
	}
	s.one(s.request("a", 1, 3), "a", MsgQueued) // clients do not crowd out a member
	s.one(s.release("x", 1), "y", MsgGrant)     // the others go on
	s.wait(s.n.tm.session)
	s.one(s.request("z", 1, 3), "z", MsgGrant)
}

func TestR32_SessionsOfOneNameHaveALimit(t *testing.T) {
	s := newMember(t, nil)
	for i := range maxIncarnations + 1 {
		s.incs["x"] = Incarnation{Start: int64(i + 10), Random: 1}
		out := s.ask("x", Message{Type: MsgKeepAlive})
		if refused := len(to(out, "x", MsgNotReady)) > 0; refused != (i == maxIncarnations) {
			t.Errorf("start %d of x: refused %v, want that of the one after %d", i+1, refused, maxIncarnations)
		}
	}
}

// "At most a set number of floors: one base floor, at or above every one that was dropped,
// counts for all locks not listed." So tokens rise, whichever floors are dropped.
func TestR32_FloorsHaveALimitAndTokensRise(t *testing.T) {
	const limit, locks, rounds = 8, 50, 4
	s := newMember(t, func(c *Config) { c.Limits.Floors = limit })
	taken := map[string]uint64{}
	id := uint64(0)
	for range rounds {
		for i := range locks {
			lock := fmt.Sprint("lock", i)
			id++
			commit := Message{Type: MsgCommit, Lock: lock, ID: RequestID{Counter: id}, Token: taken[lock]}
			m := s.one(s.ask("x", commit), "x", MsgCommitted)
			if m.OK || m.Floor < taken[lock] {
				t.Fatalf("%s: token %d taken twice, floor %d", lock, taken[lock], m.Floor)
			}
			commit.Token = m.Floor + 1
			if m = s.one(s.ask("x", commit), "x", MsgCommitted); !m.OK {
				t.Fatalf("%s: want token %d taken, got floor %d", lock, commit.Token, m.Floor)
			}
			taken[lock] = commit.Token
		}
	}
	if got := len(s.n.floors.byLock); got != limit {
		t.Errorf("want %d floors, got %d", limit, got)
	}
	if got := cap(s.n.floors.order); got > 10*limit {
		t.Errorf("want the order of the floors bounded, got room for %d", got)
	}
}

func TestR32_CallsHaveALimit(t *testing.T) {
	s := newSolo(t, "x", 3, func(c *Config) { c.Limits.Calls = 2 })
	s.lock(1, CallOptions{})
	s.lock(2, CallOptions{})
	s.n.Lock(s.now, 3, "M", CallOptions{})
	s.take()
	if failure, ok := s.failed(3); !ok || failure != FailOverloaded {
		t.Errorf("want call 3 failed as overloaded, got %v, %v", failure, ok)
	}
	s.n.Cancel(s.now, 1)
	s.n.Lock(s.now, 4, "M", CallOptions{})
	s.take()
	if _, ok := s.failed(4); ok {
		t.Error("want room for call 4")
	}
}
