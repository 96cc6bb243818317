package cli

import (
	"context"
	"errors"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/api"
	"github.com/treequorum/dmutex/dmutex"
)

// apiNode serves a node over HTTP.
type apiNode struct {
	node *dmutex.Node
	ttl  time.Duration
}

// Lock implements api.Node. Commands hold their locks for long, so that spare
// grants are worth their messages.
func (a apiNode) Lock(ctx context.Context, name string, options api.LockOptions) (api.Lease, error) {
	opts := []dmutex.Option{dmutex.LongHold()}
	if options.Label != "" {
		opts = append(opts, dmutex.WithLabel(options.Label))
	}
	if options.Waiting != nil {
		opts = append(opts, dmutex.OnWaiting(func(w dmutex.Waiting) {
			options.Waiting(api.Waiting{Ahead: w.Ahead, Holder: w.Holder, Since: w.Since, Missing: w.Missing, Starting: w.Starting})
		}))
	}
	mutex := a.node.Mutex(name, opts...)
	lock := mutex.Lock
	if options.Try {
		lock = mutex.TryLock
	}
	lease, err := lock(ctx)
	if err != nil {
		return nil, failureOf(err)
	}
	return apiLease{lease}, nil
}

// Ready implements api.Node.
func (a apiNode) Ready() error { return a.node.Ready() }

// Status implements api.Node.
func (a apiNode) Status() api.Status {
	status := api.Status{
		Name: a.node.Name(), Address: a.node.Addr(), TTLMS: a.ttl.Milliseconds(),
		Members: []api.Member{},
	}
	for _, m := range a.node.Members() {
		status.Members = append(status.Members, api.Member{
			Name: m.Name, Up: m.Up, Self: m.Self, RTTMS: float64(m.RTT) / float64(time.Millisecond), Vote: m.Vote,
		})
	}
	stats := a.node.Stats()
	status.Stats = map[string]uint64{
		"acquired": stats.Acquired, "lost": stats.Lost,
		"lock_messages": stats.LockMessages, "keepalives": stats.KeepAlives,
	}
	return status
}

// apiLease is a lease as the HTTP server wants it.
type apiLease struct{ *dmutex.Lease }

// Done implements api.Lease.
func (l apiLease) Done() <-chan struct{} { return l.Context().Done() }

// Loss implements api.Lease.
func (l apiLease) Loss() string {
	if lost, ok := errors.AsType[*dmutex.LostError](context.Cause(l.Context())); ok {
		return string(lost.Reason)
	}
	return "unlocked"
}

// failureOf gives an error of the library the code that programs go by.
func failureOf(err error) *api.Error {
	failure := &api.Error{Code: api.CodeInternal, Message: err.Error()}
	var busy *dmutex.BusyError
	var noQuorum *dmutex.NoQuorumError
	switch {
	case errors.As(err, &busy):
		failure.Code = api.CodeBusy
		// Without the context's error, which says nothing to people.
		failure.Message = (&dmutex.BusyError{Lock: busy.Lock, Holder: busy.Holder, Since: busy.Since, Ahead: busy.Ahead}).Error()
		failure.Holder, failure.Ahead, failure.SinceMS = busy.Holder, busy.Ahead, busy.Since.Milliseconds()
	case errors.As(err, &noQuorum):
		failure.Code, failure.Missing, failure.Starting = api.CodeNoQuorum, noQuorum.Missing, noQuorum.Starting
		failure.Message = (&dmutex.NoQuorumError{
			Lock: noQuorum.Lock, Missing: noQuorum.Missing, Starting: noQuorum.Starting, Members: noQuorum.Members,
		}).Error()
	case errors.Is(err, dmutex.ErrPeersDiffer):
		failure.Code = api.CodePeersDiffer
	case errors.Is(err, dmutex.ErrOverloaded):
		failure.Code = api.CodeOverloaded
	case errors.Is(err, dmutex.ErrInvalidName):
		failure.Code = api.CodeInvalidName
	case errors.Is(err, dmutex.ErrClosed):
		failure.Code = api.CodeClosed
	case errors.Is(err, context.DeadlineExceeded): // it came in the instant in which the wait was over
		failure.Code = api.CodeBusy
	}
	return failure
}
