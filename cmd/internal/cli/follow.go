package cli

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/api"
)

// follower reads the states of a hold until the connection ends, and passes them
// on by closing channels. It is the lease that the runner works under.
type follower struct {
	hold    *api.Hold
	waiting chan api.State // newest only
	warning chan api.State // newest only
	held    chan struct{}  // the lock is held; ttl is set
	tokened chan struct{}  // token is set
	grouped chan struct{}  // the group was noted
	lost    chan struct{}  // reason is set
	closing chan struct{}  // the agent asks to end
	over    chan struct{}  // nothing more comes; last and err are set
	renewed chan struct{}  // at each later deadline; holds one

	warned atomic.Bool // the agent said after the last renewal that it gets no other

	ttl    time.Duration
	token  uint64
	reason string
	last   api.State // the last line, when it was a last one
	err    error     // why the connection ended otherwise
}

// follow starts to read. The goroutine ends with the connection.
func follow(hold *api.Hold) *follower {
	f := &follower{
		hold:    hold,
		waiting: make(chan api.State, 1), warning: make(chan api.State, 1), renewed: make(chan struct{}, 1),
		held: make(chan struct{}), tokened: make(chan struct{}), grouped: make(chan struct{}),
		lost: make(chan struct{}), closing: make(chan struct{}), over: make(chan struct{}),
	}
	go f.read()
	return f
}

func (f *follower) read() {
	defer close(f.over)
	closeHeld, closeToken := sync.OnceFunc(func() { close(f.held) }), sync.OnceFunc(func() { close(f.tokened) })
	closeGrouped, closeClosing := sync.OnceFunc(func() { close(f.grouped) }), sync.OnceFunc(func() { close(f.closing) })
	for {
		state, err := f.hold.Next()
		if err != nil {
			f.err = err
			return
		}
		switch state.State {
		case api.KindWaiting:
			newest(f.waiting, state)
		case api.KindHeld:
			if !isClosed(f.held) {
				f.ttl = time.Duration(state.TTLMS) * time.Millisecond
			}
			if state.Token != 0 && !isClosed(f.tokened) {
				f.token = state.Token
				closeToken()
			}
			f.warned.Store(false)
			closeHeld()
			newest(f.renewed, struct{}{})
		case api.KindGrouped:
			closeGrouped()
		case api.KindLosing:
			if state.Reason == api.ReasonClosing {
				closeClosing()
			} else {
				f.warned.Store(true)
				newest(f.warning, state)
			}
		case api.KindLost:
			f.last, f.reason = state, state.Reason
			close(f.lost)
			return
		case api.KindReleased, api.KindFailed:
			f.last = state
			return
		}
	}
}

// newest replaces what waits in c. Only one goroutine may send to c.
func newest[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	select {
	case c <- v:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Deadline implements runner.Lease.
func (f *follower) Deadline() time.Duration { return f.hold.Deadline() }

// Lost implements runner.Lease.
func (f *follower) Lost() <-chan struct{} { return f.lost }

// Closing implements runner.Lease.
func (f *follower) Closing() <-chan struct{} { return f.closing }

// Changed implements runner.Lease.
func (f *follower) Changed() <-chan struct{} { return f.renewed }

// Renewed implements runner.Lease: while this process stood still, lines came
// that are not read yet.
func (f *follower) Renewed(atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for f.hold.Remaining() < f.ttl/2 {
		select {
		case <-f.renewed:
		case <-timer.C:
			return
		case <-f.over:
			return
		}
	}
}

// ping tells the agent each T/8 that this process lives, until the connection
// ends.
func (f *follower) ping() {
	ticker := time.NewTicker(f.ttl / 8)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if f.hold.Ping() != nil {
				return
			}
		case <-f.over:
			return
		}
	}
}
