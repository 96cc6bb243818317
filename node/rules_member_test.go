package node

import (
	"fmt"
	"slices"
	"testing"
)

// Section 3: "grant: the request that now has this member's consent, with a grant
// number. Grant numbers rise with every grant this incarnation of the member gives."
func TestR1_OneGrantAtATimeWithRisingNumbers(t *testing.T) {
	s := newMember(t, nil)
	first := s.one(s.request("x", 1, 10), "x", MsgGrant)
	out := s.request("y", 1, 20)
	s.none(out, "y", MsgGrant)
	s.one(out, "y", MsgQueued)
	second := s.one(s.release("x", 1), "y", MsgGrant)
	if first.Number == 0 || second.Number <= first.Number {
		t.Errorf("want a higher grant number than %d, got %d", first.Number, second.Number)
	}
	s.release("y", 1)
	if third := s.one(s.request("x", 2, 30), "x", MsgGrant); third.Number <= second.Number {
		t.Errorf("want a higher grant number than %d though the lock was forgotten, got %d", second.Number, third.Number)
	}
}

// Section 3: "queue: waiting requests ordered by (timestamp, requester name), lowest
// first"; section 5, member 3: "holding requests stand before all others".
func TestR2_QueueIsOrderedByHoldingTimestampName(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 1)
	s.request("w", 1, 20)
	s.request("y", 1, 20)
	s.request("z", 1, 10)
	s.ask("v", Message{Type: MsgRequest, Lock: "L", ID: RequestID{Counter: 1}, RequestTime: 40, Holding: true})
	var got []string
	for holder := "x"; holder != ""; {
		s.release(holder, 1)
		holder = ""
		for _, m := range s.out {
			if m.Type == MsgGrant {
				holder = m.To
				got = append(got, m.To)
			}
		}
	}
	if want := []string{"v", "z", "w", "y"}; !slices.Equal(got, want) {
		t.Errorf("want grants in the order %v, got %v", want, got)
	}
}

// "… also one that was queued without."
func TestR2_QueuedRequestIsPromotedWhenItHolds(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 1)
	s.request("y", 1, 20)
	s.request("z", 1, 30)
	s.ask("z", Message{Type: MsgRequest, Lock: "L", ID: RequestID{Counter: 1}, RequestTime: 30, Holding: true})
	s.one(s.release("x", 1), "z", MsgGrant)
}

// Section 5, member 1: "An id that was released, or lower than one known of the same
// incarnation for this lock: ignored."
func TestR3_EndedAndLowerIDsAreIgnored(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 5, 10)
	s.release("x", 5)
	for id := uint64(4); id <= 5; id++ {
		if out := s.request("x", id, 10); len(out) > 0 {
			t.Errorf("id %d after the end of id 5: want silence, got %v", id, shows(out))
		}
	}
	s.one(s.request("x", 6, 10), "x", MsgGrant)
	s.request("x", 8, 20)
	if out := s.request("x", 7, 10); len(out) > 0 {
		t.Errorf("id 7 after id 8: want silence, got %v", shows(out))
	}
	// An id carries the incarnation of its sender.
	other := RequestID{Incarnation: Incarnation{Start: 77}, Counter: 1}
	if out := s.ask("y", Message{Type: MsgRequest, Lock: "L", ID: other, RequestTime: 1}); len(out) > 0 {
		t.Errorf("an id of another incarnation: want silence, got %v", shows(out))
	}
}

// The same, with the Release overtaking its Request.
func TestR3_RequestAfterItsReleaseIsIgnored(t *testing.T) {
	s := newMember(t, nil)
	s.release("x", 3)
	if out := s.request("x", 3, 10); len(out) > 0 {
		t.Errorf("want silence, got %v", shows(out))
	}
}

// Ended ids are remembered in two halves, each bounded and turned with time.
func TestR3_EndedIDsOfManyLocksAreBounded(t *testing.T) {
	s := newMember(t, nil)
	release := func(from, to int) {
		for i := from; i < to; i++ {
			m := Message{Type: MsgRelease, Sent: s.now, Lock: fmt.Sprint("other", i), ID: RequestID{s.inc("x"), 1}}
			s.n.Step(s.now, s.fill("x", m))
		}
	}
	release(0, 2*maxEnded)
	s.release("x", 9)
	release(2*maxEnded, 3*maxEnded)
	if out := s.request("x", 9, 10); len(out) > 0 { // and checks the bound
		t.Errorf("want id 9 remembered while as many others as fit have ended, got %v", shows(out))
	}
}

// Section 5, member 2: "grant is already r: send the same Grant again. r is queued:
// send Queued again."
func TestR4_RepeatedRequestGetsTheSameAnswer(t *testing.T) {
	s := newMember(t, nil)
	first := s.one(s.request("x", 1, 10), "x", MsgGrant)
	if again := s.one(s.request("x", 1, 10), "x", MsgGrant); again.Number != first.Number {
		t.Errorf("want grant number %d again, got %d", first.Number, again.Number)
	}
	holding := Message{Type: MsgRequest, Lock: "L", ID: RequestID{Counter: 1}, RequestTime: 30, Holding: true}
	s.request("y", 1, 20)
	s.ask("z", holding)
	// A late double of a Request from before it held must not cost z its place.
	if m := s.one(s.request("z", 1, 30), "z", MsgQueued); m.Ahead != 1 || m.Owner != "x" {
		t.Errorf("want z queued with 1 ahead behind x, got %d behind %s", m.Ahead, m.Owner)
	}
	s.one(s.release("x", 1), "z", MsgGrant)
}

// Section 5, member 3: "an earlier id of the same incarnation of x for this lock is
// over: drop it, granted or queued. Then queue r, and grant the head."
func TestR5_LaterIDEndsTheEarlierOne(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.request("y", 1, 20)
	out := s.request("x", 2, 30)
	s.one(out, "y", MsgGrant)
	s.one(out, "x", MsgQueued)
	// The one that comes in its place takes part in the choice of the next.
	out = s.request("y", 2, 40)
	s.one(out, "x", MsgGrant)
	s.request("y", 3, 25) // queued, too
	s.one(s.release("x", 2), "y", MsgGrant)
	if q := len(s.n.locks["L"].queue); q != 0 {
		t.Errorf("want nobody left in the queue, got %d", q)
	}
}

// "Then queue r, and grant the head": the later id may itself be the head.
func TestR5_LaterIDWithTheLowestTimestampIsGranted(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.request("y", 1, 20)
	out := s.request("x", 2, 10)
	s.one(out, "x", MsgGrant)
	s.none(out, "y", MsgGrant)
}

// Section 5, member 4: "when r stands before the granted request send Inquire; repeat
// it while that is so."
func TestR6_InquireWhileALowerTimestampWaits(t *testing.T) {
	s := newMember(t, nil)
	granted := s.one(s.request("x", 1, 20), "x", MsgGrant)
	s.none(s.request("z", 1, 30), "x", MsgInquire)
	s.none(s.wait(s.n.tm.repeat), "x", MsgInquire)
	if m := s.one(s.request("y", 1, 10), "x", MsgInquire); m.Number != granted.Number {
		t.Errorf("want an Inquire for grant %d, got %d", granted.Number, m.Number)
	}
	s.one(s.wait(s.n.tm.repeat), "x", MsgInquire)
	s.release("y", 1)
	s.none(s.wait(2*s.n.tm.repeat), "x", MsgInquire)
}

// Section 5: "Member, on Yield with the number of its current grant: queue that
// request again, grant the head. Any other number: ignore."
func TestR7_YieldCountsOnlyWithTheCurrentNumber(t *testing.T) {
	s := newMember(t, nil)
	yield := func(number uint64) []Message {
		return s.ask("x", Message{Type: MsgYield, Lock: "L", ID: RequestID{Counter: 1}, Number: number})
	}
	first := s.one(s.request("x", 1, 20), "x", MsgGrant)
	s.request("y", 1, 10)
	if out := yield(first.Number + 1); len(out) > 0 {
		t.Errorf("a Yield of a grant that was never given: want silence, got %v", shows(out))
	}
	s.one(yield(first.Number), "y", MsgGrant)
	second := s.one(s.release("y", 1), "x", MsgGrant) // it was kept in the queue
	s.request("z", 1, 10)
	if out := yield(first.Number); len(out) > 0 {
		t.Errorf("a late Yield of the former grant: want silence, got %v", shows(out))
	}
	s.one(yield(second.Number), "z", MsgGrant)
}

// Section 4: "Release{lock, id}: ends this id, granted or queued, for ever"; section 5:
// "whatever its number".
func TestR8_ReleaseEndsItsIDAndNoOther(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 2, 10)
	s.request("y", 1, 20)
	s.request("z", 1, 30)
	if out := s.release("x", 1); len(out) > 0 {
		t.Errorf("Release of an earlier id: want silence, got %v", shows(out))
	}
	s.release("y", 1) // queued
	out := s.ask("x", Message{Type: MsgRelease, Lock: "L", ID: RequestID{Counter: 2}, Number: 77})
	s.one(out, "z", MsgGrant)
	s.none(out, "y", MsgGrant)
	foreign := RequestID{Incarnation: Incarnation{Start: 1, Random: 1}, Counter: 1}
	if out := s.ask("z", Message{Type: MsgRelease, Lock: "L", ID: foreign}); len(out) > 0 || s.n.locks["L"] == nil {
		t.Errorf("Release of an id of another incarnation: want no effect, got %v", shows(out))
	}
}

// Section 5: "Validate: while somebody waits behind a grant, the member asks its owner
// each T/4 and when a new request arrives."
func TestR9_ValidateWhileSomebodyWaits(t *testing.T) {
	s := newMember(t, nil)
	granted := s.one(s.request("x", 1, 10), "x", MsgGrant)
	s.none(s.wait(2*s.n.tm.repeat), "x", MsgValidate)
	if m := s.one(s.request("y", 1, 20), "x", MsgValidate); m.Number != granted.Number {
		t.Errorf("want Validate of grant %d, got %d", granted.Number, m.Number)
	}
	s.none(s.wait(s.n.tm.repeat-1), "x", MsgValidate)
	s.one(s.wait(1), "x", MsgValidate)
	s.release("y", 1)
	s.none(s.wait(2*s.n.tm.repeat), "x", MsgValidate)
}

// A grant that goes to the head of a queue is validated after T/4, too.
func TestR9_ValidateAfterAHandOver(t *testing.T) {
	s := newMember(t, nil)
	s.request("x", 1, 10)
	s.request("y", 1, 20)
	s.request("z", 1, 30)
	s.wait(s.n.tm.repeat / 2)
	s.release("x", 1)
	s.none(s.wait(s.n.tm.repeat-1), "y", MsgValidate)
	s.one(s.wait(1), "y", MsgValidate)
}

// "'No longer interested' removes the grant. Silence does not: only the end of the
// session does."
func TestR9_OnlyTheReplyOverEndsTheID(t *testing.T) {
	s := newMember(t, nil)
	granted := s.one(s.request("x", 1, 10), "x", MsgGrant)
	s.request("y", 1, 20)
	for range 8 { // 2 T without a reply, both are heard otherwise
		s.none(s.wait(s.n.tm.repeat), "y", MsgGrant)
		s.keepAlive("x", "y")
	}
	reply := Message{Type: MsgValidateReply, Lock: "L", ID: RequestID{Counter: 1}, Number: granted.Number, State: StateWaiting}
	s.none(s.ask("x", reply), "y", MsgGrant)
	if m := s.one(s.request("y", 1, 20), "y", MsgQueued); m.OwnerHolds {
		t.Error("want Queued that does not say that the owner holds")
	}
	reply.State = StateHolding
	s.none(s.ask("x", reply), "y", MsgGrant)
	if m := s.one(s.request("y", 1, 20), "y", MsgQueued); !m.OwnerHolds || m.Owner != "x" || m.Since != 2*oneT {
		t.Errorf("want Queued that says that x holds since 2 T, got %q %v since %d", m.Owner, m.OwnerHolds, m.Since)
	}
	reply.ID.Counter, reply.State = 7, StateOver
	s.none(s.ask("x", reply), "y", MsgGrant)
	reply.ID.Counter = 1
	s.one(s.ask("x", reply), "y", MsgGrant)
	if out := s.request("x", 1, 10); len(out) > 0 {
		t.Errorf("a Request of the id that is over: want silence, got %v", shows(out))
	}
}
