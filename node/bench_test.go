package node

import (
	"fmt"
	"testing"
)

// loopback joins nodes that are past their quarantine; messages arrive at once.
type loopback struct {
	nodes map[string]*Node
	now   Instant
	queue []Message
	sent  int
}

func newLoopback(b *testing.B, n int) *loopback {
	b.Helper()
	l := &loopback{nodes: map[string]*Node{}, now: 1_000_000}
	for _, name := range letters(n) {
		node, err := New(testConfig(name, letters(n)), l.now, int64(l.now))
		if err != nil {
			b.Fatal(err)
		}
		l.nodes[name] = node
	}
	for range 64 { // past the quarantine
		l.now = l.now.Add(testTTL / 32)
		for _, name := range letters(n) {
			l.nodes[name].Tick(l.now)
			l.settle(l.nodes[name])
		}
	}
	return l
}

// settle delivers what the node left and all that comes of it. Events are dropped.
func (l *loopback) settle(n *Node) {
	l.queue = append(l.queue[:0], n.Take().Messages...)
	for i := 0; i < len(l.queue); i++ {
		to := l.nodes[l.queue[i].To]
		to.Step(l.now, l.queue[i])
		l.queue = append(l.queue, to.Take().Messages...)
	}
	l.sent += len(l.queue)
}

// BenchmarkLockUnlock is one uncontended lock by a member, through all cores that take
// part, without a network. An operation is one Lock and Unlock.
func BenchmarkLockUnlock(b *testing.B) {
	for _, size := range []int{3, 7, 15} {
		b.Run(fmt.Sprint("n=", size), func(b *testing.B) {
			l := newLoopback(b, size)
			n := l.nodes["a"]
			b.ReportAllocs()
			l.sent = 0
			call := CallID(0)
			for b.Loop() {
				call++
				n.Lock(l.now, call, "L", CallOptions{})
				l.settle(n)
				if !n.Unlock(l.now, call) {
					b.Fatal("the lock was not held")
				}
				l.settle(n)
			}
			b.ReportMetric(float64(l.sent)/float64(b.N), "messages/op")
		})
	}
}

// BenchmarkKeepAlive is one KeepAlive from a requester and its answer, at a member.
func BenchmarkKeepAlive(b *testing.B) {
	l := newLoopback(b, 3)
	member := l.nodes["b"]
	m := Message{
		Type: MsgKeepAlive, From: "x", To: "b", FromIncarnation: Incarnation{Start: 2}, ToIncarnation: member.inc,
		Fingerprint: member.fingerprint, Timestamp: 1, Sent: 1,
	}
	b.ReportAllocs()
	for b.Loop() {
		member.Step(l.now, m)
		member.Take()
	}
}
