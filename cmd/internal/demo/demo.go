// Package demo shows a cluster at work: real processes on loopback fight for one
// lock, the root of that lock's tree is killed and comes back, and a judge that
// is no part of the cluster watches that no two of them are inside at once.
//
// The parent ([Run]) is the judge. It starts this program again for each process
// ([RunWorker]), and the two sides talk over the pipes of standard input and
// output, one JSON object a line. A worker says when it has the lock and when it
// is about to give it back, and waits for the judge's word each time.
package demo

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits of a demo.
const (
	MinNodes = 3 // of two, none may be killed: the other alone is no quorum
	MaxNodes = 31
	MinFor   = 6 * time.Second // a third has to outlast the quarantine of the restarted process
	MaxFor   = 10 * time.Minute
)

// The errors of this package, for errors.Is.
var (
	// ErrVerdict says that the demo ran to its end, and that what it saw is not
	// what a lock promises.
	ErrVerdict = errors.New("demo: the verdict is FAIL")
	// ErrInterrupted says that the context ended before the demo did.
	ErrInterrupted = errors.New("demo: interrupted; all its processes are ended")
	// ErrUsage says that a Config cannot be used.
	ErrUsage = errors.New("demo: wrong usage")
)

// Config says what [Run] shows.
type Config struct {
	Nodes int           // processes, MinNodes to MaxNodes; best 3, 7 or 15
	For   time.Duration // how long they fight, from the first lock; MinFor to MaxFor
	JSON  bool          // print the result as one JSON object, and nothing else
	Seed  uint64        // decides the workers' pauses, not the machine's
	Break bool          // let the workers in without the lock, to see the judge object

	// Worker are the arguments with which this program calls RunWorker.
	Worker []string
	// Stdout gets the text, or the JSON object. It is not closed.
	Stdout io.Writer
	// Terminal says that Stdout is a screen on which a line can be written over.
	Terminal bool
}

// Validate reports all faults of c at once. They match ErrUsage.
func (c *Config) Validate() error {
	var errs []error
	if c.Nodes < MinNodes || c.Nodes > MaxNodes {
		errs = append(errs, fmt.Errorf("%w: %d nodes: choose %d to %d, best 3, 7 or 15", ErrUsage, c.Nodes, MinNodes, MaxNodes))
	}
	if c.For < MinFor || c.For > MaxFor {
		errs = append(errs, fmt.Errorf("%w: %v is too short or too long: choose %v to %v; one process is killed after a third of it and restarted "+
			"after two, and needs more than its quarantine of %v then", ErrUsage, c.For, MinFor, MaxFor, quarantine()))
	}
	return errors.Join(errs...)
}
