package dmutex

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/transport"
)

// world is a cluster on an in-memory network. Inside a synctest bubble its time is
// virtual: the bounds that tests state hold exactly.
type world struct {
	t     *testing.T
	net   *transport.Network
	epoch time.Time
	peers []Peer
	nodes map[string]*Node
	jump  atomic.Int64 // added to every node's clock: as if all had been stopped
}

const oneWay = 10 * time.Millisecond

func newWorld(t *testing.T, members int) *world {
	t.Helper()
	w := &world{
		t: t, epoch: time.Now(), nodes: make(map[string]*Node),
		net: transport.NewNetwork(transport.NetworkConfig{Seed: 1, MinDelay: oneWay, MaxDelay: oneWay}),
	}
	for i := range members {
		name := fmt.Sprintf("n%02d", i+1)
		w.peers = append(w.peers, Peer{Name: name, Addr: name + ":1"})
	}
	return w
}

// start starts one node; change may alter its configuration.
func (w *world) start(name string, change func(*Config)) *Node {
	w.t.Helper()
	cfg := DefaultLANConfig()
	cfg.Name, cfg.Peers = name, w.peers
	cfg.hooks = hooks{
		now:       func() node.Instant { return node.Instant(int64(time.Since(w.epoch)+time.Hour) + w.jump.Load()) },
		transport: w.net.Join(name), seed: uint64(len(w.nodes) + 1),
	}
	if change != nil {
		change(&cfg)
	}
	n, err := Start(cfg)
	if err != nil {
		w.t.Fatalf("start %s: %v", name, err)
	}
	w.nodes[name] = n
	return n
}

// startAll starts all members and waits until their quarantine is over.
func (w *world) startAll() *world {
	w.t.Helper()
	for _, p := range w.peers {
		w.start(p.Name, nil)
	}
	time.Sleep(4 * time.Second) // virtual: T x (1+d) = 3.3 s
	return w
}

func (w *world) close() {
	for name, n := range w.nodes {
		if err := n.Close(context.Background()); err != nil {
			w.t.Errorf("close %s: %v", name, err)
		}
	}
}

func (w *world) node(i int) *Node { return w.nodes[w.peers[i-1].Name] }

func mustLock(t *testing.T, m *Mutex) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease, err := m.Lock(ctx)
	if err != nil {
		t.Fatalf("lock %q on %s: %v", m.Name(), m.node.Name(), err)
	}
	return lease
}

// receive takes from a channel, and fails after two minutes, virtual ones in a
// bubble: nodes that tick for ever would keep a test that waits from ending.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("waited 2 minutes in vain")
	}
	panic("unreachable")
}

func mustUnlock(t *testing.T, l *Lease) {
	t.Helper()
	if err := l.Unlock(context.Background()); err != nil {
		t.Fatalf("unlock %q: %v, want nil: it was held", l.Name(), err)
	}
}
