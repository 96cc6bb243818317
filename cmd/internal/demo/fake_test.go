package demo

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// fakeCluster is a lock that works, for workers that are goroutines of the test.
// Inside a synctest bubble its time is virtual.
type fakeCluster struct {
	begin time.Time
	free  chan struct{} // holds one value while nobody has the lock

	mu      sync.Mutex
	holder  *fakeNode
	starts  map[string]int // of each name
	crashed map[*fakeNode]bool

	// What goes wrong; nil for nothing.
	startErr func(name string, start int) error
	lockErr  func(name string, start int) error
	starve   func(name string, start int) bool // who never gets it
}

func newFakeCluster() *fakeCluster {
	c := &fakeCluster{
		begin: time.Now(), free: make(chan struct{}, 1),
		starts: make(map[string]int), crashed: make(map[*fakeNode]bool),
	}
	time.AfterFunc(quarantine(), func() { c.free <- struct{}{} })
	return c
}

func (c *fakeCluster) now() time.Duration { return time.Since(c.begin) }

func (c *fakeCluster) start(cfg workerConfig) (*fakeNode, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts[cfg.Name]++
	n := &fakeNode{c: c, name: cfg.Name, life: c.starts[cfg.Name], broken: cfg.Break}
	if n.life == 1 { // sent before the first lock: not for the locks that are counted
		n.sent = counters{LockMessages: 10000, KeepAlives: 10000}
	}
	if c.startErr != nil {
		if err := c.startErr(n.name, n.life); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// launch starts a worker as a goroutine. A kill ends it and cuts its pipes; what
// it held is free once its lease is over.
func (c *fakeCluster) launch() (*process, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var mu sync.Mutex
	var own *fakeNode
	start := func(cfg workerConfig) (node, error) {
		n, err := c.start(cfg)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		own = n
		return n, nil
	}
	go func() {
		err := runWorker(ctx, inR, outW, start, c.now)
		cancel()
		_ = inR.Close()
		_ = outW.Close()
		ended <- err
	}()
	kill := func() error {
		mu.Lock()
		if own != nil {
			c.crash(own)
		}
		mu.Unlock()
		cancel()
		_ = inR.Close()
		_ = outW.Close()
		return nil
	}
	return &process{pid: 1, in: inW, out: outR, kill: kill, wait: func() error { return <-ended }}, nil
}

func (c *fakeCluster) crash(n *fakeNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashed[n] = true
	if c.holder == n {
		c.holder = nil
		time.AfterFunc(quarantine(), func() { c.free <- struct{}{} })
	}
}

// take makes n the holder, unless it was killed on the way.
func (c *fakeCluster) take(n *fakeNode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crashed[n] {
		c.free <- struct{}{}
		return errors.New("killed")
	}
	c.holder = n
	return nil
}

// give ends n's hold; a dead one cannot.
func (c *fakeCluster) give(n *fakeNode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crashed[n] || c.holder != n {
		return errors.New("not the holder")
	}
	c.holder = nil
	c.free <- struct{}{}
	return nil
}

type fakeNode struct {
	c      *fakeCluster
	name   string
	life   int
	broken bool

	mu   sync.Mutex
	sent counters
}

func (n *fakeNode) lock(ctx context.Context) (lease, error) {
	if n.c.lockErr != nil {
		if err := n.c.lockErr(n.name, n.life); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	n.sent = n.sent.plus(counters{LockMessages: 6, KeepAlives: 1})
	n.mu.Unlock()
	if n.c.starve != nil && n.c.starve(n.name, n.life) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !n.broken {
		select {
		case <-n.c.free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := n.c.take(n); err != nil {
			return nil, err
		}
	}
	return &fakeLease{n: n, until: n.c.now() + leaseTTL()}, nil
}

func (n *fakeNode) counters() counters {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent
}

func (n *fakeNode) tree() (root, drawn string) { return "n2", "  n2\nn1  n3" }

func (n *fakeNode) close(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = counters{} // a closed node has none
	return nil
}

type fakeLease struct {
	n     *fakeNode
	until time.Duration
}

func (l *fakeLease) Context() context.Context    { return context.Background() }
func (l *fakeLease) BootDeadline() time.Duration { return l.until }

func (l *fakeLease) Unlock(context.Context) error {
	if l.n.broken {
		return nil
	}
	return l.n.c.give(l.n)
}
