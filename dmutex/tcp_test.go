package dmutex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// freePeers returns members on loopback ports that were free a moment ago.
func freePeers(t testing.TB, n int) []Peer {
	t.Helper()
	var peers []Peer
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		peers = append(peers, Peer{Name: fmt.Sprintf("n%02d", i+1), Addr: l.Addr().String()})
	}
	return peers
}

// startTCP starts a cluster on real sockets, and waits until it grants.
func startTCP(t testing.TB, members int) []*Node {
	t.Helper()
	peers := freePeers(t, members)
	nodes := make([]*Node, 0, members)
	for _, p := range peers {
		cfg := DefaultLocalConfig()
		cfg.LeaseTTL = time.Second
		cfg.Name, cfg.Peers = p.Name, peers
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, n := range nodes {
		lease, err := n.Mutex("warm-up").Lock(ctx)
		if err != nil {
			t.Fatalf("%s: %v", n.Name(), err)
		}
		if err := lease.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

func closeAll(t testing.TB, nodes []*Node) {
	t.Helper()
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			if err := n.Close(context.Background()); err != nil {
				t.Errorf("close %s: %v", n.Name(), err)
			}
		})
	}
	wg.Wait()
}

// A client's configuration that is copied to a second host brings two processes
// under one name. The newer one takes over; the older one is told, by the members,
// though it listens on nothing.
func TestTwoClientsOfOneName(t *testing.T) {
	defer goleak.VerifyNone(t)
	nodes := startTCP(t, 3)
	defer closeAll(t, nodes)
	start := func() *Node {
		cfg := DefaultLocalConfig()
		cfg.Name, cfg.Peers, cfg.Client = "client", nodes[0].cfg.Peers, true
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	older := start()
	defer older.Close(context.Background())
	lease := mustLock(t, older.Mutex("x"))
	time.Sleep(1200 * time.Millisecond) // real processes: T(1+d) = 1.1 s after its start it is no restart any more
	newer := start()
	defer newer.Close(context.Background())
	receive(t, older.Done())
	if err := older.Err(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the older client: %v, want ErrReplaced", err)
	}
	var lost *LostError
	if !errors.As(context.Cause(lease.Context()), &lost) || lost.Reason != LossReplaced {
		t.Errorf("its lease: %v, want lost because replaced", context.Cause(lease.Context()))
	}
	mustUnlock(t, mustLock(t, newer.Mutex("x")))
}

func TestRealSocketsLeaveNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	nodes := startTCP(t, 3)
	defer closeAll(t, nodes)
	lease := mustLock(t, nodes[0].Mutex("x", WithLabel("test")))
	if token, err := lease.Token(t.Context()); err != nil || token == 0 {
		t.Errorf("token %d, %v", token, err)
	}
	if _, err := nodes[1].Mutex("x").TryLock(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("try: %v, want ErrBusy", err)
	}
	mustUnlock(t, lease)
	mustUnlock(t, mustLock(t, nodes[2].Mutex("x")))
}
