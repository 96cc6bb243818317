// Package runner runs a command while a lock is held, and ends it before the
// lock can be somebody else's.
//
// # What ends
//
// On Linux the command is the leader of a process group of its own, and a child
// of a guard: a small process between the calling program and the command. When
// the lock is about to be lost the guard sends TERM to the group, and a grace later
// guard and program both send KILL to the group and to every descendant that left
// it; both are subreapers, so they find them. The guard has its own clock and is
// told each deadline, so that it does this also while the program is stopped; and
// when the program dies it ends everything at once, and goes last. It is in a
// process group of its own, where neither the terminal nor a signal to the job
// reaches it. When the guard is killed, the kernel kills the command
// (PDEATHSIG) and the program the rest. When both are killed at one time, only
// the agent still sees the group: what left it with setsid or setpgid is out of
// reach. Elsewhere only the command itself is ended.
//
// # Why a gate
//
// The agent must know group and guard before the command can start anything, or
// a kill between the two would leave processes that nobody watches. So the
// guard's child is this same program once more, waiting on a pipe ([Gate]); it
// becomes the command by exec once the agent has acknowledged the group. A pipe
// needs no ptrace, no stop signals that a shell would notice, and ends the child
// by itself when the guard dies.
package runner

import (
	"errors"
	"os"
	"time"
)

// The first arguments with which this program is started again as a gate or a
// guard; whoever parses arguments hands the rest to [Gate] or [Guard].
const (
	GateArgument  = "__gate"
	GuardArgument = "__guard"
)

// ErrNotAnnounced says that the command was not run, because its group could
// not be announced. The announcement's own error is wrapped beside it.
var ErrNotAnnounced = errors.New("the agent did not take note of the command, so it was not run")

// ErrGuardGone says that the command was killed because the process that guarded
// it is gone.
var ErrGuardGone = errors.New("the guard process of the command was killed, and so was the command")

// Exit statuses that a shell gives for a command that never ran.
const (
	statusCannotExecute = 126
	statusNotFound      = 127
	statusSignal        = 128 // plus the number of the signal that ended it
)

// Lease is the lock that the command runs under. Moments are readings of [Now].
type Lease interface {
	// Deadline is the last moment at which the lock is held for certain, as far
	// as is known now. It only moves up.
	Deadline() time.Duration
	// Lost is closed when the lock is known to be over.
	Lost() <-chan struct{}
	// Closing is closed when the holder is asked to end now, while it still has
	// until Deadline.
	Closing() <-chan struct{}
	// Renewed is called once when the command was suspended for a while; it
	// blocks until news that came meanwhile were read, at most the given time.
	Renewed(atMost time.Duration)
	// Changed gets a value, and keeps the newest, when Deadline has moved up. Only
	// Run and Renewed read from it.
	Changed() <-chan struct{}
}

// Group names the process group of the command and the process that guards it.
// The start times of the group's leader and of the guard (field 22 of
// /proc/PID/stat) tell them from later processes with the same numbers.
type Group struct {
	ID          int
	LeaderStart uint64
	Guard       int
	GuardStart  uint64
}

// Config says what to run and under which lease.
type Config struct {
	Args                  []string // the command and its arguments; the command is looked up in PATH
	Env                   []string
	Stdin, Stdout, Stderr *os.File // passed to the command untouched
	Lease                 Lease
	// Grace (G): TERM at the deadline - 2G, KILL at the deadline - G.
	Grace time.Duration
	// Tick bounds the time between two looks at the clock: timers stand still
	// while the machine sleeps, the lease does not.
	Tick time.Duration
	// Announce tells the agent of the group; the command starts once it returns
	// nil. It is called on a goroutine of its own.
	Announce func(Group) error
	// Signals are what this process got and the command is to get. The channel
	// must come from [Signals].
	Signals chan os.Signal
}

// Result says how the command ended.
type Result struct {
	// Status is the exit status as a shell would give it: 128 plus the signal for
	// a command that was killed by one, 126 and 127 for one that cannot be run.
	Status int
	// Lost says that the lease ended, or had to be given up, before the command
	// did. Nothing of the command runs any more.
	Lost bool
}
