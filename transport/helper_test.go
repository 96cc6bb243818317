package transport

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treequorum/dmutex/node"
)

// patience is how long a test waits for what must happen on real sockets. Only a
// failing test takes that long.
const patience = 10 * time.Second

// recorder is a Handler that keeps everything.
type recorder struct {
	mu         sync.Mutex
	messages   []node.Message
	refused    map[string]int
	mismatches []Mismatch
	changed    chan struct{} // closed and replaced at each change
	block      chan struct{} // not nil: Deliver waits until it is closed
}

func newRecorder() *recorder {
	return &recorder{refused: make(map[string]int), changed: make(chan struct{})}
}

func (r *recorder) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Deliver(m node.Message) {
	r.mu.Lock()
	block := r.block
	r.mu.Unlock()
	if block != nil {
		<-block
	}
	r.change(func() { r.messages = append(r.messages, m) })
}

// stick makes Deliver block until the returned function is called, or the test ends.
func (r *recorder) stick(t testing.TB) (release func()) {
	block := make(chan struct{})
	r.mu.Lock()
	r.block = block
	r.mu.Unlock()
	release = sync.OnceFunc(func() {
		r.mu.Lock()
		r.block = nil
		r.mu.Unlock()
		close(block)
	})
	t.Cleanup(release)
	return release
}

func (r *recorder) PeerRefused(name string) { r.change(func() { r.refused[name]++ }) }

func (r *recorder) PeerMismatch(m Mismatch) {
	r.change(func() { r.mismatches = append(r.mismatches, m) })
}

// wait waits until what was recorded satisfies ok.
func (r *recorder) wait(t testing.TB, what string, ok func(r *recorder) bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		done, changed := ok(r), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("after %v still waiting for %s; have %d messages, refusals %v, mismatches %v",
				patience, what, len(r.messages), r.refused, r.mismatches)
		}
	}
}

// waitCount waits for n messages and returns all that came.
func (r *recorder) waitCount(t testing.TB, n int) []node.Message {
	t.Helper()
	r.wait(t, fmt.Sprintf("%d messages", n), func(r *recorder) bool { return len(r.messages) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]node.Message(nil), r.messages...)
}

// eventually polls for conditions that no channel announces, such as counters.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("after %v still waiting for %s", patience, what)
		}
	}
}

// request and grant are a usual question and answer.
func request(from, to string, n int) node.Message {
	return node.Message{
		Type: node.MsgRequest, From: from, To: to,
		FromIncarnation: node.Incarnation{Start: 1_700_000_000_000_000_000, Random: 0x9e3779b97f4a7c15},
		ToIncarnation:   node.Incarnation{Start: 1_700_000_000_000_000_001, Random: 0xbf58476d1ce4e5b9},
		Fingerprint:     0x94d049bb133111eb, Timestamp: 1_700_000_000_500_000_000, Sent: node.Instant(n),
		Lock: "dns/example.com", ID: node.RequestID{Incarnation: node.Incarnation{Start: 1_700_000_000_000_000_000, Random: 7}, Counter: uint64(n)},
		RequestTime: 1_700_000_000_400_000_000, Label: "host-1 pid 4711",
	}
}

func grant(from, to string, n int) node.Message {
	m := request(from, to, n)
	m.Type, m.Sent, m.RequestTime, m.Label = node.MsgGrant, 0, 0, ""
	m.Echo, m.Session, m.Vote, m.Number, m.Floor = node.Instant(n), 3, node.VoteTree, uint64(n), 12
	return m
}

// closeNow closes a transport and fails the test when that does not work.
func closeNow(t testing.TB, tr Transport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Fatalf("Close: %v, want nil", err)
	}
}

// genText draws names and labels that the wire allows, at the limits often.
func genText(minLen, maxLen int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringOfN(rapid.SampledFrom([]rune("ab/-. ~é世\u200f𝄞")), -1, -1, maxLen).Draw(t, "text")
		for len(s) < minLen {
			s += "x"
		}
		if rapid.IntRange(0, 9).Draw(t, "full") == 0 {
			for len(s) < maxLen {
				s += "y"
			}
		}
		return s
	})
}

func genIncarnation() *rapid.Generator[node.Incarnation] {
	return rapid.Custom(func(t *rapid.T) node.Incarnation {
		return node.Incarnation{Start: rapid.Int64Min(0).Draw(t, "start"), Random: rapid.Uint64().Draw(t, "random")}
	})
}

// genMessage draws a message of a type, its own fields filled and no others.
func genMessage(typ node.MessageType) *rapid.Generator[node.Message] {
	return rapid.Custom(func(t *rapid.T) node.Message {
		full := node.Message{
			Type: typ,
			From: genText(1, MaxNodeName).Draw(t, "from"), To: genText(1, MaxNodeName).Draw(t, "to"),
			FromIncarnation: genIncarnation().Draw(t, "from inc"), ToIncarnation: genIncarnation().Draw(t, "to inc"),
			Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
			Timestamp:   node.Timestamp(rapid.Int64Range(0, int64(node.MaxTimestamp)).Draw(t, "timestamp")),
			Sent:        node.Instant(rapid.Int64Min(0).Draw(t, "sent")), Echo: node.Instant(rapid.Int64Min(0).Draw(t, "echo")),
			Session: rapid.Uint64().Draw(t, "session"), Vote: node.Vote(rapid.Uint8Max(2).Draw(t, "vote")),
			Lock:         genText(1, MaxLockName).Draw(t, "lock"),
			ID:           node.RequestID{Incarnation: genIncarnation().Draw(t, "id"), Counter: rapid.Uint64().Draw(t, "counter")},
			RequestTime:  node.Timestamp(rapid.Int64Range(0, int64(node.MaxTimestamp)).Draw(t, "request time")),
			Holding:      rapid.Bool().Draw(t, "holding"),
			Label:        genText(0, MaxLabel).Draw(t, "label"),
			Number:       rapid.Uint64().Draw(t, "number"),
			Token:        rapid.Uint64().Draw(t, "token"),
			Floor:        rapid.Uint64().Draw(t, "floor"),
			OK:           rapid.Bool().Draw(t, "ok"),
			Ahead:        rapid.Uint32().Draw(t, "ahead"),
			Owner:        genText(0, MaxNodeName).Draw(t, "owner"),
			OwnerHolds:   rapid.Bool().Draw(t, "owner holds"),
			Since:        node.Duration(rapid.Int64Min(0).Draw(t, "since")),
			State:        node.RequestState(rapid.Uint8Range(1, 3).Draw(t, "state")),
			NeedMajority: rapid.Bool().Draw(t, "need majority"),
			Other:        genIncarnation().Draw(t, "other"),
			Round:        rapid.Uint64().Draw(t, "round"),
			Reason:       node.NotReadyReason(rapid.Uint8Range(1, 7).Draw(t, "reason")),
		}
		return onlyFieldsOf(full)
	})
}

// onlyFieldsOf clears what the type of m does not carry. It is written from the
// table of messages in the protocol, not from the codec, so that a field missing
// there shows.
func onlyFieldsOf(m node.Message) node.Message {
	out := node.Message{
		Type: m.Type, From: m.From, To: m.To, FromIncarnation: m.FromIncarnation,
		ToIncarnation: m.ToIncarnation, Fingerprint: m.Fingerprint, Timestamp: m.Timestamp,
	}
	if m.Type.FromMember() {
		out.Echo, out.Session, out.Vote = m.Echo, m.Session, m.Vote
	} else {
		out.Sent = m.Sent
	}
	switch m.Type {
	case node.MsgKeepAlive:
		out.NeedMajority = m.NeedMajority
		return out
	case node.MsgKeepAliveAck:
		out.Other = m.Other
		return out
	case node.MsgReadFloors:
		out.Round = m.Round
		return out
	case node.MsgFloors:
		out.Round, out.OK, out.Floor = m.Round, m.OK, m.Floor
		return out
	case node.MsgGoodbye:
		return out
	}
	out.Lock, out.ID = m.Lock, m.ID
	switch m.Type {
	case node.MsgRequest:
		out.RequestTime, out.Holding, out.Label = m.RequestTime, m.Holding, m.Label
	case node.MsgGrant:
		out.Number, out.Floor = m.Number, m.Floor
	case node.MsgQueued:
		out.Ahead, out.Owner, out.OwnerHolds, out.Since = m.Ahead, m.Owner, m.OwnerHolds, m.Since
	case node.MsgInquire, node.MsgYield, node.MsgValidate:
		out.Number = m.Number
	case node.MsgValidateReply:
		out.Number, out.State = m.Number, m.State
	case node.MsgCommit:
		out.Token = m.Token
	case node.MsgCommitted:
		out.Token, out.OK, out.Floor = m.Token, m.OK, m.Floor
	case node.MsgNotReady:
		out.Reason, out.Other = m.Reason, m.Other
	}
	return out
}

// allTypes lists every message type of this version.
func allTypes() []node.MessageType {
	var types []node.MessageType
	for typ := node.MessageType(1); typ.Valid(); typ++ {
		types = append(types, typ)
	}
	return types
}
