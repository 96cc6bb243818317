package dmutex

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors of this package, for errors.Is. Those that carry facts are also
// types, for errors.As: [BusyError], [NoQuorumError], [LostError],
// [PeersDifferError], and [QuarantineError] of [Node.Ready].
var (
	// ErrBusy says that somebody else has the lock, or stands before this
	// caller in its queue.
	ErrBusy = errors.New("dmutex: lock is busy")
	// ErrNoQuorum says that too few members answer for anybody to get a lock.
	ErrNoQuorum = errors.New("dmutex: no quorum of members answers")
	// ErrLost says that the lease ended before it was unlocked.
	ErrLost = errors.New("dmutex: lock was lost")
	// ErrNotHeld says that the lease was unlocked already.
	ErrNotHeld = errors.New("dmutex: lock is not held")
	// ErrClosed says that the node is closed, or had to stop.
	ErrClosed = errors.New("dmutex: node is closed")
	// ErrPeersDiffer says that other members run with another configuration, so
	// that no lock may be granted side by side with theirs.
	ErrPeersDiffer = errors.New("dmutex: peers have a different configuration")
	// ErrOverloaded says that a queue is at its limit; try again later.
	ErrOverloaded = errors.New("dmutex: queue is full")
	// ErrInvalidName says that the name of a lock, a node, a peer or a cluster, or a
	// label, cannot be used.
	ErrInvalidName = errors.New("dmutex: invalid name")
	// ErrReplaced is the reason in [Node.Err] when another process runs under
	// this node's name.
	ErrReplaced = errors.New("dmutex: another process runs under this node name; stop one of the two")
	// ErrUnlocked is the cause of a lease's context after Unlock.
	ErrUnlocked = errors.New("dmutex: lock was unlocked")
)

// BusyError tells who has the lock. It matches ErrBusy, and the context's error
// when a context ended the wait.
type BusyError struct {
	Lock   string
	Holder string        // node that has the lock or stands first for it; empty when not known
	Since  time.Duration // for how long, as far as the members tell
	Ahead  int           // requests before this one, as the members last said
	cause  error
}

// Error says who has the lock.
func (e *BusyError) Error() string {
	who := "another caller"
	if e.Holder != "" {
		who = fmt.Sprintf("node %q for %v", e.Holder, e.Since.Round(time.Millisecond))
	}
	return withCause(fmt.Sprintf("dmutex: lock %q is busy, held by %s", e.Lock, who), e.cause)
}

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the context's error, when one ended the wait.
func (e *BusyError) Unwrap() error { return e.cause }

// NoQuorumError tells which members do not answer. It matches ErrNoQuorum, and
// the context's error when a context ended the wait.
type NoQuorumError struct {
	Lock     string
	Missing  []string // members that do not answer, sorted
	Starting []string // members that answer, but were started so lately that they grant nothing yet, sorted
	Members  int      // how many members the cluster has
	cause    error
}

// Error names the missing members.
func (e *NoQuorumError) Error() string {
	var why []string
	if len(e.Missing) > 0 {
		why = append(why, fmt.Sprintf("no answer from %s (%d of %d members)", strings.Join(e.Missing, ", "), len(e.Missing), e.Members))
	}
	if len(e.Starting) > 0 {
		why = append(why, strings.Join(e.Starting, ", ")+" started just now and may not grant yet")
	}
	if len(why) == 0 {
		why = append(why, "none is known to be down, but too few have granted in time")
	}
	return withCause(fmt.Sprintf("dmutex: no quorum%s: %s", forLock(e.Lock), strings.Join(why, "; ")), e.cause)
}

// Is reports whether target is ErrNoQuorum.
func (e *NoQuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Unwrap returns the context's error, when one ended the wait.
func (e *NoQuorumError) Unwrap() error { return e.cause }

// LossReason says why a lease ended before it was unlocked.
type LossReason string

// The reasons of a loss.
const (
	LossExpired  LossReason = "expired"  // the deadline passed while members answered, or while this process was paused
	LossCutOff   LossReason = "cut off"  // too few members could be reached to keep the lock
	LossForced   LossReason = "forced"   // somebody asked this node to end the hold; nothing can ask yet
	LossClosed   LossReason = "closed"   // the node was closed
	LossReplaced LossReason = "replaced" // another process runs under this node's name
)

// LostError tells why a lease ended. It matches ErrLost.
type LostError struct {
	Lock   string
	Reason LossReason
}

// Error says why the lock was lost.
func (e *LostError) Error() string {
	return fmt.Sprintf("dmutex: lock %q was lost: %s", e.Lock, e.Reason)
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// PeersDifferError names members that run with another configuration. It
// matches ErrPeersDiffer.
type PeersDifferError struct {
	Peers []string // sorted
}

// Error names the peers and says what must be equal.
func (e *PeersDifferError) Error() string {
	return fmt.Sprintf("dmutex: %s have a different configuration: peers, cluster name, lease TTL, "+
		"clock drift, rotation and tree-only must be the same on every node", strings.Join(e.Peers, ", "))
}

// Is reports whether target is ErrPeersDiffer.
func (e *PeersDifferError) Is(target error) bool { return target == ErrPeersDiffer }

// QuarantineError says that this member was started so lately that locks may still
// be held by what its process before granted, of which it knows nothing. It passes
// by itself; other members go on meanwhile.
type QuarantineError struct {
	For time.Duration // how long it still takes
}

// Error says for how long.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("dmutex: quarantined for another %v after the start", e.For.Round(time.Millisecond))
}

func forLock(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" for lock %q", name)
}

func withCause(text string, cause error) string {
	if cause == nil {
		return text
	}
	return text + ": " + cause.Error()
}
