package demo

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/treequorum/dmutex/dmutex"
)

// leaseTTL is T of the demo's cluster.
func leaseTTL() time.Duration { return dmutex.DefaultLocalConfig().LeaseTTL }

// quarantine is how long a member that has started grants nothing: T x (1 + d).
func quarantine() time.Duration {
	c := dmutex.DefaultLocalConfig()
	return time.Duration(float64(c.LeaseTTL) * (1 + c.MaxClockDrift))
}

// portTaken reports whether a node could not start because another process has
// its port. 10048 is what Windows says then.
func portTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.Errno(10048))
}

// realNode is a node of the library, and one of its locks.
type realNode struct {
	n     *dmutex.Node
	mutex *dmutex.Mutex
	name  string
}

// startNode starts a member as cfg says.
func startNode(cfg workerConfig) (node, error) {
	peers, err := dmutex.ParsePeers(cfg.Peers)
	if err != nil {
		return nil, err
	}
	c := dmutex.DefaultLocalConfig()
	c.Name, c.Cluster, c.Peers = cfg.Name, cfg.Cluster, peers
	n, err := dmutex.Start(c)
	if err != nil {
		return nil, err
	}
	var w node = &realNode{n: n, mutex: n.Mutex(cfg.Lock), name: cfg.Lock}
	if cfg.Break {
		w = &brokenNode{node: w}
	}
	return w, nil
}

func (r *realNode) lock(ctx context.Context) (lease, error) {
	l, err := r.mutex.Lock(ctx)
	if err != nil {
		return nil, err // not l: a nil *Lease is no nil lease
	}
	return l, nil
}

func (r *realNode) counters() counters {
	s := r.n.Stats()
	return counters{LockMessages: s.LockMessages, KeepAlives: s.KeepAlives}
}

func (r *realNode) tree() (root, drawn string) { return r.n.Root(r.name), r.n.Tree(r.name) }

func (r *realNode) close(ctx context.Context) error { return r.n.Close(ctx) }

// brokenNode says that it has the lock whenever it is asked. It is the proof
// that the judge is no rubber stamp.
type brokenNode struct{ node }

func (b *brokenNode) lock(context.Context) (lease, error) {
	return brokenLease{until: dmutex.BootNow() + leaseTTL()}, nil
}

type brokenLease struct{ until time.Duration }

func (brokenLease) Context() context.Context      { return context.Background() }
func (b brokenLease) BootDeadline() time.Duration { return b.until }
func (brokenLease) Unlock(context.Context) error  { return nil }
