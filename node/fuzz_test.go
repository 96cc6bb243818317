package node

import (
	"math/rand/v2"
	"testing"
)

// hostile plays everybody but one node, from bytes: plausible messages, forged ones, late
// ones, and calls, in any order. Small ranges make them meet.
type hostile struct {
	*solo
	data []byte
	call CallID
	last []Message // Requests sent lately, to be granted
}

// next returns a number below n, 0 when the data are used up.
func (h *hostile) next(n int) int {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return int(b) % n
}

func (h *hostile) pick(names ...string) string { return names[h.next(len(names))] }

func (h *hostile) incarnation() Incarnation {
	switch i := h.next(12); i {
	case 0, 1, 2, 3, 4, 5:
		return Incarnation{Start: 2, Random: 2}
	case 6, 7:
		return h.n.inc
	case 8:
		return Incarnation{}
	case 9:
		return Incarnation{Start: 1<<62 + int64(h.next(2)), Random: 1}
	case 10:
		return Incarnation{Start: h.n.inc.Start, Random: h.n.inc.Random + uint64(h.next(3)) - 1}
	default:
		return Incarnation{Start: int64(h.next(4)), Random: uint64(h.next(2))}
	}
}

// id is one that the node uses, or one of few others.
func (h *hostile) id() RequestID {
	if r := len(h.n.requests); r > 0 && h.next(2) == 0 {
		return RequestID{h.n.inc, h.n.requests[h.next(r)].id}
	}
	return RequestID{h.incarnation(), uint64(h.next(6))}
}

func (h *hostile) number() uint64 {
	switch h.next(4) {
	case 0:
		return h.n.grantNumber
	case 1:
		return 1<<64 - 1
	default:
		return uint64(h.next(8))
	}
}

func (h *hostile) instant() Instant {
	switch h.next(6) {
	case 0:
		return 0
	case 1:
		return -1 << 63
	case 2:
		return 1<<63 - 1
	default:
		return h.now.Add(-Duration(h.next(200)) * 5 * Millisecond)
	}
}

func (h *hostile) message() Message {
	m := Message{
		Type: MessageType(h.next(int(maxMessageType) + 1)), From: h.pick("a", "b", "c", "x", "y", h.n.cfg.Name),
		To: h.n.cfg.Name, FromIncarnation: h.incarnation(), ToIncarnation: h.n.inc, Fingerprint: h.n.fingerprint,
		Timestamp: Timestamp(h.next(256)), Sent: h.instant(), Echo: h.instant(), Session: uint64(h.next(4)),
		Vote: Vote(h.next(4)), Lock: h.pick("L", "L", "M", "N", ""), ID: h.id(), RequestTime: Timestamp(h.next(8)),
		Holding: h.next(4) == 0, Number: h.number(), Token: h.number(), Floor: h.number(), OK: h.next(2) == 0,
		Ahead: uint32(h.next(256)), Owner: "y", OwnerHolds: h.next(2) == 0, State: RequestState(h.next(5)),
		NeedMajority: h.next(2) == 0, Round: uint64(h.next(3)), Reason: NotReadyReason(h.next(int(maxNotReadyReason) + 1)),
	}
	switch h.next(16) {
	case 0:
		m.ToIncarnation = h.incarnation()
	case 1:
		m.Fingerprint++
	case 2:
		m.Timestamp = MaxTimestamp + Timestamp(h.next(2))
	case 3:
		m.Other = h.incarnation()
	case 4:
		m.To = "somebody else"
	}
	return m
}

// grantLast answers the oldest Request that was not answered as its member should.
func (h *hostile) grantLast() {
	if len(h.last) == 0 {
		return
	}
	m := h.last[0]
	h.last = h.last[1:]
	h.answer(m.To, Message{
		Type: []MessageType{MsgGrant, MsgGrant, MsgGrant, MsgQueued, MsgInquire}[h.next(5)],
		Lock: m.Lock, ID: m.ID, Number: uint64(h.next(8)), Vote: VoteTree, FromIncarnation: h.n.peers[h.n.index[m.To]].inc,
		Session: max(1, h.n.peers[h.n.index[m.To]].session), Floor: h.number() % MaxToken,
	})
}

func (h *hostile) someCall() CallID { return CallID(h.next(int(min(h.call, 200)) + 1)) }

func (h *hostile) do() {
	switch h.next(24) {
	case 0:
		h.wait(Duration(h.next(256)) * 5 * Millisecond)
	case 1:
		h.now += Instant(h.next(256)) * 1_000_000
		h.n.Tick(h.now)
	case 2, 3, 4:
		h.call++
		h.n.Lock(h.now, h.call, h.pick("L", "M", "N"), CallOptions{Try: h.next(4) == 0, Watch: h.next(2) == 0, LongHold: h.next(4) == 0})
	case 5:
		h.n.Unlock(h.now, h.someCall())
	case 6:
		h.n.Cancel(h.now, h.someCall())
	case 7:
		h.n.WantToken(h.now, h.someCall())
	case 8:
		hint := h.next(4)
		[]func(Instant, string){h.n.PeerRefused, h.n.PeerDead, h.n.PeerAlive, h.n.PeerDiffers}[hint](h.now, h.pick("a", "b", "c", "x"))
	case 9:
		h.n.SetWall(h.now, int64(h.next(256)-128)<<40)
	case 10:
		if h.next(64) == 0 {
			h.n.Shutdown(h.now)
		}
	case 11, 12, 13, 14:
		h.grantLast()
	default:
		h.n.Step(h.now, h.message())
	}
}

// play runs one sequence; the invariants are checked after every call.
func play(t *testing.T, data []byte) {
	t.Helper()
	h := &hostile{data: data}
	limits := func(c *Config) {
		c.Limits = Limits{Queue: 3, Locks: 3, Clients: 3, Floors: 2, Calls: 8}
		c.TreeOnly = h.next(4) == 0
	}
	h.solo = newSolo(t, h.pick("b", "b", "a", "x"), 3, limits)
	if h.next(4) > 0 {
		h.wait(h.n.tm.quarantine)
	}
	for len(h.data) > 0 {
		h.do()
		h.take()
		if len(h.all) > 10_000 {
			t.Fatalf("%d messages by one call", len(h.all))
		}
		for _, m := range h.out {
			if m.Type == MsgRequest && len(h.last) < 32 {
				h.last = append(h.last, m)
			}
		}
	}
}

// FuzzNode: no sequence of calls and messages makes a node panic or breaks an invariant.
func FuzzNode(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 2000))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		play(t, data)
	})
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// The same with random bytes, in every run.
func TestAnySequenceKeepsTheInvariants(t *testing.T) {
	acquired, lost, tokens := 0, 0, 0
	for seed := range uint64(50) {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("seed %d: panic: %v", seed, p)
				}
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			play(t, randomBytes(seed, 3000))
		}()
	}
	// The sequences must come to where something can go wrong.
	for seed := range uint64(20) {
		a, l, k := reach(t, seed)
		acquired, lost, tokens = acquired+a, lost+l, tokens+k
	}
	if acquired == 0 || lost == 0 || tokens == 0 {
		t.Errorf("the sequences reach %d leases, %d losses, %d tokens: they try too little", acquired, lost, tokens)
	}
}

// reach counts what one sequence comes to.
func reach(t *testing.T, seed uint64) (acquired, lost, tokens int) {
	t.Helper()
	h := &hostile{data: randomBytes(seed, 3000)}
	h.solo = newSolo(t, "x", 3, nil)
	for len(h.data) > 0 {
		h.do()
		h.take()
		for _, m := range h.out {
			switch {
			case m.Type == MsgRequest && len(h.last) < 32:
				h.last = append(h.last, m)
			case m.Type == MsgCommit:
				h.answer(m.To, Message{
					Type: MsgCommitted, Lock: m.Lock, ID: m.ID, Token: m.Token, OK: true, FromIncarnation: m.ToIncarnation,
					Session: h.n.peers[h.n.index[m.To]].session,
				})
			}
		}
	}
	for _, e := range h.events {
		switch e.Type {
		case EventAcquired:
			acquired++
		case EventLost:
			lost++
		case EventToken:
			tokens++
		case EventFailed, EventDeadline, EventWaiting, EventPeerDiffers, EventPeerUp, EventPeerDown, EventReplaced, EventRestarted, EventDropped:
		}
	}
	return acquired, lost, tokens
}
