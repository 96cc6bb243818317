package dmutex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treequorum/dmutex/node"
)

// Mutex is a named lock of the cluster. It holds no state: several Mutexes of one
// name, on this node or another, are the same lock, and one may be used by many
// goroutines at a time. It is not reentrant.
type Mutex struct {
	node *Node
	name string
	opts lockOptions
	err  error // of the name or the label
}

// Mutex returns the lock of that name, 1 to 255 bytes of UTF-8 without control
// characters. A bad name shows when it is locked.
func (n *Node) Mutex(name string, opts ...Option) *Mutex {
	m := &Mutex{node: n, name: name, err: checkText("lock name", name, MaxLockNameBytes)}
	for _, o := range opts {
		o(&m.opts)
	}
	if m.err == nil && m.opts.label != "" {
		m.err = checkText("label", m.opts.label, MaxLabelBytes)
	}
	return m
}

// Name returns the lock's name.
func (m *Mutex) Name() string { return m.name }

// Lock waits until this caller holds the lock or ctx ends. Callers of one node
// are served first come first served, behind one request of the node; among nodes
// the earlier request is first. When other nodes wait, a node passes the lock among
// its own callers at most eight times more, or for T/4, and then asks anew.
//
// When ctx ends, Lock returns at once with an error that matches ctx's error and
// says why it had to wait: a [BusyError] when somebody has the lock, a
// [NoQuorumError] when too few members answer. It fails early with
// ErrInvalidName, ErrClosed, ErrPeersDiffer or ErrOverloaded. After an error
// nothing is held, and the members forget the request.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.lock(ctx, false) }

// TryLock takes the lock if it is to be had within two round trips to its quorum
// and a twenty-fourth of the lease TTL. Otherwise it returns a [BusyError] or a
// [NoQuorumError], or one of Lock's errors.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.lock(ctx, true) }

// call is one Lock or TryLock under way, and the way back from the loop.
type call struct {
	id     node.CallID
	mutex  *Mutex
	values context.Context //nolint:containedctx // only its values go into the lease's context
	result chan result     // holds one
}

type result struct {
	lease   *Lease
	failure node.Failure
	facts   node.Facts
}

// lock asks until it has a lease that is held when it returns: one that was lost on
// the way, because the process was paused, is as good as none.
func (m *Mutex) lock(ctx context.Context, try bool) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	for {
		lease, err := m.ask(ctx, try)
		if err != nil || lease.sync() {
			return lease, err
		}
	}
}

func (m *Mutex) ask(ctx context.Context, try bool) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("dmutex: lock %q: not asked for: %w", m.name, contextError(ctx))
	}
	c := &call{id: m.node.nextCall(), mutex: m, values: ctx, result: make(chan result, 1)}
	if !m.node.submit(command{kind: commandLock, call: c, id: c.id, try: try}) {
		return nil, m.node.closedError()
	}
	select {
	case r := <-c.result:
		return m.finish(ctx, r)
	case <-ctx.Done():
	case <-m.node.stopping:
		return nil, m.node.closedError()
	}
	// The loop answers each call exactly once. It may have got the lock meanwhile.
	if !m.node.submit(command{kind: commandCancel, id: c.id}) {
		return nil, m.node.closedError()
	}
	select {
	case r := <-c.result:
		if r.lease != nil {
			_ = r.lease.Unlock(ctx) // lost already is as good
			return nil, fmt.Errorf("dmutex: lock %q: had it too late: %w", m.name, contextError(ctx))
		}
		return nil, m.failure(r, contextError(ctx))
	case <-m.node.stopping:
		return nil, m.node.closedError()
	}
}

// finish turns a result that came before the context ended into what Lock returns.
func (m *Mutex) finish(ctx context.Context, r result) (*Lease, error) {
	if r.lease == nil {
		return nil, m.failure(r, nil)
	}
	if ctx.Err() != nil { // both at once: the caller does not expect a lock any more
		_ = r.lease.Unlock(ctx)
		return nil, fmt.Errorf("dmutex: lock %q: had it too late: %w", m.name, contextError(ctx))
	}
	return r.lease, nil
}

// contextError is the context's error, with its cause where that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause != nil && !errors.Is(cause, err) {
		return errors.Join(err, cause)
	}
	return err
}

func (m *Mutex) failure(r result, cause error) error {
	switch r.failure {
	case node.FailBusy:
		return &BusyError{
			Lock: m.name, Holder: r.facts.Owner, Since: time.Duration(r.facts.Since), Ahead: r.facts.Ahead, cause: cause,
		}
	case node.FailNoQuorum:
		return &NoQuorumError{
			Lock: m.name, Missing: r.facts.Missing, Starting: r.facts.Starting, Members: len(m.node.cfg.Peers), cause: cause,
		}
	case node.FailDiffers:
		return &PeersDifferError{Peers: r.facts.Differs}
	case node.FailOverloaded:
		return fmt.Errorf("%w: lock %q: too many wait for it, or too many locks are in use; try again later", ErrOverloaded, m.name)
	case node.FailClosed:
		return m.node.closedError()
	}
	return fmt.Errorf("dmutex: lock %q: unknown failure %d", m.name, r.failure)
}

// Do runs f while holding the lock of that name. The context that f gets is
// derived from ctx and ends when the lock is lost; f must stop then. Do returns
// f's error, joined with a [LostError] when the lock was lost before f returned, or
// the error of [Mutex.Lock] without having called f.
func (n *Node) Do(ctx context.Context, name string, f func(ctx context.Context) error, opts ...Option) error {
	lease, err := n.Mutex(name, opts...).Lock(ctx)
	if err != nil {
		return err
	}
	held, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	unlocked := false
	defer func() {
		if !unlocked { // f panicked
			_ = lease.Unlock(ctx)
		}
	}()
	err = f(held)
	unlocked = true
	return errors.Join(err, lease.Unlock(ctx))
}

// Locker returns the lock of that name as a sync.Locker, for code that knows no
// better. Its Lock blocks until the lock is had, and panics when the node is
// closed or the name is bad. Nothing tells its user of a loss: prefer
// [Mutex.Lock] or [Node.Do]. Unlock panics when the Locker is not locked.
func (n *Node) Locker(name string, opts ...Option) sync.Locker {
	return &locker{mutex: n.Mutex(name, opts...)}
}

type locker struct {
	mutex *Mutex
	mu    sync.Mutex
	lease *Lease
}

// Lock implements sync.Locker.
func (l *locker) Lock() {
	ctx := context.Background()
	for {
		lease, err := l.mutex.Lock(ctx)
		if err == nil {
			l.mu.Lock()
			l.lease = lease
			l.mu.Unlock()
			return
		}
		if !errors.Is(err, ErrOverloaded) && !errors.Is(err, ErrPeersDiffer) {
			panic(err)
		}
		select { // the only errors that may pass
		case <-time.After(l.mutex.node.cfg.LeaseTTL / 4):
		case <-l.mutex.node.stopping:
		}
	}
}

// Unlock implements sync.Locker. A lock that was lost meanwhile is not an error
// here, because there is nobody to tell.
func (l *locker) Unlock() {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		panic(fmt.Errorf("%w: Unlock of %q without Lock", ErrNotHeld, l.mutex.name))
	}
	_ = lease.Unlock(context.Background())
}
