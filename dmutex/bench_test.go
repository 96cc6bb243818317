package dmutex

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// lockMessages sums the lock messages of all nodes, KeepAlives left out.
func lockMessages(nodes []*Node) uint64 {
	var sum uint64
	for _, n := range nodes {
		sum += n.Stats().LockMessages
	}
	return sum
}

// startSteady starts a cluster and waits until all members vote for the tree again:
// while they were quarantined, those that wanted a lock asked for the majority.
func startSteady(b *testing.B, members int) []*Node {
	b.Helper()
	nodes := startTCP(b, members)
	steady := func() bool {
		for _, n := range nodes {
			for _, m := range n.Members() {
				if m.Vote != "tree" {
					return false
				}
			}
		}
		return true
	}
	for deadline := time.Now().Add(20 * time.Second); !steady(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("members do not vote for the tree 20 s after the start")
		}
	}
	return nodes
}

func lockUnlock(b *testing.B, m *Mutex) {
	ctx := context.Background()
	lease, err := m.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLockUnlock locks and unlocks a free lock over real TCP on loopback.
// msgs/op counts the messages between nodes: 3k, k being the members of a quorum
// besides oneself, and what repeats and repairs add. n=1 is the same without a
// network, to compare with.
func BenchmarkLockUnlock(b *testing.B) {
	for _, members := range []int{1, 3, 7, 15} {
		b.Run(fmt.Sprintf("n=%d", members), func(b *testing.B) {
			nodes := startSteady(b, members)
			defer closeAll(b, nodes)
			m := nodes[0].Mutex("bench")
			before := lockMessages(nodes)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				lockUnlock(b, m)
			}
			b.StopTimer()
			b.ReportMetric(float64(lockMessages(nodes)-before)/float64(b.N), "msgs/op")
		})
	}
}

// BenchmarkLockUnlock64Names has 64 goroutines lock 64 names from 7 members at a
// time: no contention for a lock, all of it for the connections.
func BenchmarkLockUnlock64Names(b *testing.B) {
	nodes := startSteady(b, 7)
	defer closeAll(b, nodes)
	before := lockMessages(nodes)
	var next atomic.Int32
	b.SetParallelism(32) // times GOMAXPROCS, 64 on 2 cores
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := int(next.Add(1))
		m := nodes[i%len(nodes)].Mutex(fmt.Sprintf("bench-%d", i%64))
		for pb.Next() {
			lockUnlock(b, m)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(lockMessages(nodes)-before)/float64(b.N), "msgs/op")
}
