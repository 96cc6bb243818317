package dmutex_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treequorum/dmutex/dmutex"
)

// startStandalone starts a cluster of one node, which needs no network. A real one
// lists several Peers and leaves Standalone out.
func startStandalone() *dmutex.Node {
	cfg := dmutex.DefaultLocalConfig()
	cfg.Name = "a"
	cfg.Peers = []dmutex.Peer{{Name: "a"}}
	cfg.Standalone = true
	n, err := dmutex.Start(cfg)
	if err != nil {
		panic(err)
	}
	return n
}

func Example() {
	ctx := context.Background()
	n := startStandalone()
	defer n.Close(ctx)

	lease, err := n.Mutex("dns/example.com").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Remaining() > 0)
	fmt.Println("unlock:", lease.Unlock(ctx))
	// Output:
	// held: true
	// unlock: <nil>
}

func ExampleNode_Do() {
	ctx := context.Background()
	n := startStandalone()
	defer n.Close(ctx)

	err := n.Do(ctx, "dns/example.com", func(ctx context.Context) error {
		// ctx ends when the lock is lost: stop then.
		fmt.Println("working, lost:", ctx.Err() != nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// working, lost: false
	// <nil>
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	n := startStandalone()
	defer n.Close(ctx)

	lease, _ := n.Mutex("report").TryLock(ctx)
	defer lease.Unlock(ctx)

	_, err := n.Mutex("report").TryLock(ctx)
	if busy, ok := errors.AsType[*dmutex.BusyError](err); ok {
		fmt.Println("busy, held by", busy.Holder)
	}
	// Output:
	// busy, held by a
}

func ExampleMutex_Lock_timeout() {
	n := startStandalone()
	defer n.Close(context.Background())
	lease, _ := n.Mutex("report").Lock(context.Background())
	defer lease.Unlock(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := n.Mutex("report").Lock(ctx)
	fmt.Println(errors.Is(err, dmutex.ErrBusy), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true
}

func ExampleLease_Token() {
	ctx := context.Background()
	n := startStandalone()
	defer n.Close(ctx)

	m := n.Mutex("report")
	var last uint64
	for range 2 {
		lease, _ := m.Lock(ctx)
		token, err := lease.Token(ctx) // send it with each write to the resource
		fmt.Println(token > last, err)
		last = token
		lease.Unlock(ctx)
	}
	// Output:
	// true <nil>
	// true <nil>
}

func ExampleNode_Locker() {
	n := startStandalone()
	defer n.Close(context.Background())

	l := n.Locker("report")
	l.Lock()
	fmt.Println("locked")
	l.Unlock()
	// Output:
	// locked
}

func ExampleLease_Context() {
	ctx := context.Background()
	n := startStandalone()
	lease, _ := n.Mutex("report").Lock(ctx)

	n.Close(ctx) // one of the ways to lose a lock

	<-lease.Context().Done()
	if lost, ok := errors.AsType[*dmutex.LostError](context.Cause(lease.Context())); ok {
		fmt.Println("lost:", lost.Reason)
	}
	// Output:
	// lost: closed
}

func ExampleParsePeers() {
	peers, err := dmutex.ParsePeers([]string{"a=10.0.0.1:7946", "b=10.0.0.2:7946", "c.example.com:7946"})
	for _, p := range peers {
		fmt.Println(p.Name, p.Addr)
	}
	fmt.Println(err)
	// Output:
	// a 10.0.0.1:7946
	// b 10.0.0.2:7946
	// c.example.com:7946 c.example.com:7946
	// <nil>
}
