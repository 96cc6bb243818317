package api

import (
	"context"
	"time"
)

// Node is what the server needs of a node of the cluster.
type Node interface {
	// Lock waits for the lock until ctx ends; with options.Try it gives up once
	// somebody else is known to have it. The error is best an *Error.
	Lock(ctx context.Context, name string, options LockOptions) (Lease, error)
	// Ready returns nil when the node can get locks, else why not. It does not
	// block.
	Ready() error
	// Status fills in all but Ready, Reason and Holds.
	Status() Status
}

// LockOptions are the wishes of one call of Lock.
type LockOptions struct {
	Try   bool
	Label string
	// Waiting is called when the place in the queue changes. It does not block.
	Waiting func(Waiting)
}

// Waiting is what is known about a wait.
type Waiting struct {
	Ahead   int
	Holder  string
	Since   time.Duration
	Missing []string // members that do not answer
	// Starting are members that answer, but were started too lately to grant.
	Starting []string
}

// Lease is a lock that is held.
type Lease interface {
	// Done is closed when the lock was lost or unlocked.
	Done() <-chan struct{}
	// Loss says why the lock was lost, once Done is closed.
	Loss() string
	// BootDeadline is the time, on the server's clock, until which the lock is
	// held if nothing more is heard.
	BootDeadline() time.Duration
	// Token blocks until there is a fencing token, the lease is over, or ctx ends.
	Token(ctx context.Context) (uint64, error)
	// Unlock does not wait for the network.
	Unlock(ctx context.Context) error
}

// Processes tells whether a caller's processes live.
type Processes interface {
	// Alive reports whether process pid, started at start, runs and is no zombie.
	Alive(pid int, start uint64) bool
	// StartTime returns the start time of a process, 0 when it cannot be seen.
	StartTime(pid int) uint64
	// GroupAlive reports whether any process of the group runs.
	GroupAlive(group int, leaderStart uint64) bool
}
