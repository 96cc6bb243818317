package dmutex

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treequorum/dmutex/node"
)

// Lease is a lock that is held. It lasts as long as its node lives and reaches a
// quorum of members: there is no time limit on holding a lock, only on being
// silent while holding it. All methods may be called by several goroutines.
//
// A lease protects a resource as far as the rates of clocks hold (see
// [Config].MaxClockDrift). Where the resource can refuse a late writer, send it
// the [Lease.Token] with each write.
type Lease struct {
	node *Node
	id   node.CallID
	name string

	deadline atomic.Int64  // CLOCK_BOOTTIME; written on the loop only
	reply    chan bool     // of Unlock, holds one
	ended    chan struct{} // closed with cause

	mu      sync.Mutex
	values  context.Context //nolint:containedctx // Lock's, for the values of ctx
	ctx     context.Context //nolint:containedctx // made when first asked for
	cancel  context.CancelCauseFunc
	cause   error // set once the lease is over
	release bool  // Unlock was called
	token   uint64
	fixed   chan struct{} // closed with token; made when first asked for
}

// Name returns the lock's name.
func (l *Lease) Name() string { return l.name }

// Context returns a context that ends with the lease; context.Cause is a
// [LostError], or ErrUnlocked. It carries the values of the context that Lock was
// called with, and not its deadline.
//
// In a process that was stopped and goes on, the context has ended when Context
// returns, if the lease has.
func (l *Lease) Context() context.Context {
	l.sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(l.values))
		if l.cause != nil {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// Deadline returns until when the lock is held if nothing more is heard of the
// members. It moves on while they answer. After the lease ended it stays where
// it was.
func (l *Lease) Deadline() time.Time {
	l.sync()
	return time.Now().Add(l.untilDeadline())
}

// BootDeadline is Deadline as a reading of [BootNow], for comparison by another
// process on this machine. It does not block.
func (l *Lease) BootDeadline() time.Duration { return time.Duration(l.deadline.Load()) }

// Remaining returns for how long the lock is held if nothing more is heard; zero
// when it is not held any more. It reads the clock itself, so it is right also
// in a process that was stopped and goes on.
func (l *Lease) Remaining() time.Duration {
	select {
	case <-l.ended:
		return 0
	default:
		return max(0, l.untilDeadline())
	}
}

// sync makes sure that a deadline which has passed is known: the loop may not have
// run since this process was paused. It reports whether the lease is held.
func (l *Lease) sync() bool {
	if l.untilDeadline() <= 0 {
		l.node.query(func(core *node.Node, now node.Instant) {
			if until, ok := core.Deadline(now, l.id); ok {
				l.deadline.Store(int64(until))
			}
		})
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

func (l *Lease) untilDeadline() time.Duration {
	return time.Duration(l.deadline.Load() - int64(l.node.hooks.now()))
}

// Token returns the fencing token of this lease: a number that is higher than
// that of every earlier lease of this lock. It waits for a majority of the
// members, one round trip as a rule, and longer while members have lately been
// restarted. After a start of the whole cluster, or the restart of a majority, it
// waits until every member has answered once: what was forgotten must be found
// where it may still be known. Call it early, in a goroutine of its own, to overlap
// it with work.
// It fails with a [LostError] or ErrNotHeld when the lease ends first, with a
// [NoQuorumError] when ctx does, and with ErrClosed when the node has stopped.
func (l *Lease) Token(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	if l.fixed == nil {
		l.fixed = make(chan struct{})
	}
	fixed := l.fixed
	l.mu.Unlock()
	select {
	case <-fixed: // a token stays right after the lease
		return l.token, nil
	default:
	}
	if !l.node.submit(command{kind: commandToken, id: l.id}) {
		return 0, l.node.closedError()
	}
	select {
	case <-fixed:
		return l.token, nil
	case <-l.ended:
		return 0, l.endError()
	case <-ctx.Done():
		return 0, fmt.Errorf("dmutex: token of lock %q: no majority of members has taken one yet: %w",
			l.name, &NoQuorumError{Lock: l.name, Members: len(l.node.cfg.Peers), cause: contextError(ctx)})
	}
}

// Unlock ends the lease. It returns nil when the lock was held at the call,
// whatever the network does: it does not wait for it, and works with an ended
// ctx. It returns a [LostError] when the lock was lost before, and ErrNotHeld
// from the second call on.
func (l *Lease) Unlock(context.Context) error {
	l.mu.Lock()
	second := l.release
	l.release = true
	l.mu.Unlock()
	if second {
		select { // of two at once, the later one returns when the lease is over, too
		case <-l.ended:
		case <-l.node.done:
		}
		return fmt.Errorf("%w: %q was unlocked before", ErrNotHeld, l.name)
	}
	if !l.node.submit(command{kind: commandUnlock, id: l.id, lease: l}) {
		<-l.node.Done() // the loop ends all leases on its way out
		return l.endError()
	}
	select {
	case held := <-l.reply:
		if held && l.end(ErrUnlocked) {
			return nil
		}
	case <-l.node.done:
	}
	return l.endError()
}

// end closes the lease. It reports whether it was the first to do so: the first
// cause stays.
func (l *Lease) end(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	if l.cancel != nil {
		l.cancel(cause)
	}
	close(l.ended)
	return true
}

func (l *Lease) endError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.cause {
	case nil:
		return &LostError{Lock: l.name, Reason: LossClosed}
	case ErrUnlocked: //nolint:errorlint // compared with what end was given
		return fmt.Errorf("%w: %q was unlocked before", ErrNotHeld, l.name)
	}
	return l.cause
}

func (l *Lease) setToken(token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fixed == nil {
		l.fixed = make(chan struct{})
	}
	select {
	case <-l.fixed:
	default:
		l.token = token
		close(l.fixed)
	}
}
