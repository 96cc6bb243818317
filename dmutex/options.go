package dmutex

import (
	"time"

	"github.com/treequorum/dmutex/node"
)

// Option sets how a [Mutex] is locked.
type Option func(*lockOptions)

type lockOptions struct {
	label     string
	longHold  bool
	onWaiting func(Waiting)
}

// WithLabel attaches a text for people, at most 128 bytes, that those who wait
// and operators are shown.
func WithLabel(label string) Option { return func(o *lockOptions) { o.label = label } }

// LongHold makes the node ask all members as soon as it holds the lock, and not
// only after a third of the lease TTL: more messages, and from the first round
// trip on failures find the hold with spare grants.
func LongHold() Option { return func(o *lockOptions) { o.longHold = true } }

// OnWaiting tells f what is known of the lock while a call waits for it, each
// time that this changes. f is called on the node's own goroutine, so it must
// return at once and must not call into this package.
func OnWaiting(f func(Waiting)) Option { return func(o *lockOptions) { o.onWaiting = f } }

// Waiting is what is known of a lock while a call waits for it.
type Waiting struct {
	Ahead    int           // requests before this one; 0 when no member has queued it yet
	Holder   string        // node that has the lock or stands first; empty when not known
	Holds    bool          // Holder is known to hold the lock, not only to be granted it
	Since    time.Duration // for how long
	Missing  []string      // members that do not answer, sorted
	Starting []string      // members that answer, but were started too lately to grant, sorted
}

func waitingOf(f node.Facts) Waiting {
	return Waiting{Ahead: f.Ahead, Holder: f.Owner, Holds: f.Holds, Since: time.Duration(f.Since), Missing: f.Missing, Starting: f.Starting}
}
