package runner

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// run is one command under one lease.
type run struct {
	cfg       *Config
	guard     *guardian
	terminal  *terminal
	watch     watch
	announced <-chan error
	lost      <-chan struct{}
	closing   <-chan struct{}
	told      time.Duration // the deadline that the guard knows
	failure   error         // why the command was killed, or never ran, within its lease
	stopAsked bool          // a stop was passed on to the command
	exited    bool          // the command itself is over
	cleared   bool          // and what it left is being ended, all within the lease
	status    int
}

// Run runs a command under a lease and blocks until it is over; after a loss,
// until nothing of it runs any more. It changes what this process does with
// signals and makes it a subreaper, so it is for programs, and once for each.
//
// A command that cannot be found or executed gives a status and an error to
// print; any other error says that the command was not run.
func Run(cfg *Config) (Result, error) {
	path, status, err := lookUp(cfg.Args[0])
	if err != nil {
		return Result{Status: status}, err
	}
	if err = becomeSubreaper(); err != nil {
		return Result{}, fmt.Errorf("cannot look after the command's descendants: %w", err)
	}
	r := &run{
		cfg:     cfg,
		watch:   watch{grace: cfg.Grace},
		lost:    cfg.Lease.Lost(),
		closing: cfg.Lease.Closing(),
	}
	r.guard, err = startGuard(cfg, path)
	if err != nil {
		return Result{}, err
	}
	defer r.guard.dismiss()
	catchMore(cfg.Signals)
	defer signal.Stop(cfg.Signals)
	r.terminal = controllingTerminal(cfg.Stdin)
	r.terminal.give(r.guard.group.ID)
	defer r.terminal.take(r.guard.group.ID)
	r.announce()
	r.loop()
	if r.failure != nil {
		return Result{Status: r.status}, r.failure
	}
	return Result{Status: r.status, Lost: r.watch.ending && !r.cleared}, nil
}

// announce tells the agent of the group.
func (r *run) announce() {
	answer := make(chan error, 1)
	r.announced = answer
	go func() { answer <- r.cfg.Announce(r.guard.group) }()
}

// loop returns once the command is over.
func (r *run) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// The clock comes first: whatever woke this goroutine may have come late.
		if r.look() {
			return
		}
		r.tellDeadline()
		timer.Reset(r.wait())
		select {
		case <-timer.C:
		case <-r.cfg.Lease.Changed():
		case event, ok := <-r.guard.events:
			r.onGuard(event, ok)
		case err := <-r.announced:
			r.onAnnounced(err)
		case sig := <-r.cfg.Signals:
			r.onSignal(sig)
		case <-r.lost:
			r.lost = nil
			r.watch.over(Now())
		case <-r.closing:
			r.closing = nil
			r.onClosing()
		}
	}
}

// look reads the clock, ends what has to end, and reports whether all is over.
func (r *run) look() bool {
	if r.exited && !r.watch.ending {
		return true
	}
	deadline := r.cfg.Lease.Deadline()
	switch r.watch.step(Now(), deadline) {
	case actTerminate:
		r.guard.terminate(deadline)
	case actKill:
		r.killAll()
	case actNothing:
	}
	if !r.watch.ending || !r.exited {
		return false
	}
	if r.watch.killed {
		return r.killAll() == 0
	}
	return len(descendants(r.guard.group.ID, r.guard.group.Guard)) == 0
}

// killAll kills all but the guard, which must outlive what it guards.
func (r *run) killAll() int { return killAll(r.guard.group.ID, r.guard.group.Guard) }

// tellDeadline passes a deadline on that has moved. One that the guard does not
// take now it gets later.
func (r *run) tellDeadline() {
	if deadline := r.cfg.Lease.Deadline(); deadline != r.told && r.guard.say(sayDeadline, deadline) {
		r.told = deadline
	}
}

// wait returns for how long nothing has to be looked at.
func (r *run) wait() time.Duration {
	const whileDying = 10 * time.Millisecond
	wait := r.watch.wait(Now(), r.cfg.Lease.Deadline(), r.cfg.Tick)
	if r.watch.ending {
		// Descendants that are no children yet die without a sign.
		return min(wait, whileDying)
	}
	return wait
}

// onClosing ends the command before its time, because the agent goes away.
func (r *run) onClosing() {
	if r.watch.ending {
		return
	}
	r.watch.end(r.cfg.Lease.Deadline())
	r.guard.terminate(r.cfg.Lease.Deadline())
}

// onGuard takes what the guard tells of the command. open is false when the guard
// is gone.
func (r *run) onGuard(event record, open bool) {
	if !open {
		r.guard.events = nil
		r.onGuardGone()
		return
	}
	switch event.kind {
	case tellStopped:
		r.onStopped()
	case tellEnding:
		if !r.watch.ending { // by its clock, which may have been looked at first
			r.watch.end(r.cfg.Lease.Deadline())
		}
	case tellExited:
		r.exited = true
		r.status = int(event.value)
		// Only what ended by itself, within the lease, ended well.
		switch {
		case r.watch.ending:
		case isClosed(r.lost) || Now() >= r.cfg.Lease.Deadline():
			r.watch.over(Now())
		case event.more == 1:
			r.clear()
		}
	case tellStarted, tellFailed, sayDeadline, sayOpen, sayEnd, saySuspended, sayResumed, sayGoodbye:
	}
}

// clear ends what a command has left that was itself ended by a signal: it did not
// choose to leave that in the background, and it would work on without the lock.
func (r *run) clear() {
	r.cleared = true
	r.watch.ending = true
	r.watch.killAt = min(Now()+r.cfg.Grace, r.cfg.Lease.Deadline()-r.cfg.Grace)
	for _, s := range descendants(r.guard.group.ID, r.guard.group.Guard) {
		_ = unix.Kill(s.pid, unix.SIGTERM)
		_ = unix.Kill(s.pid, unix.SIGCONT)
	}
}

// onGuardGone kills what the guard has left: the command itself died with it.
func (r *run) onGuardGone() {
	if r.exited {
		return
	}
	r.exited = true
	r.status = statusSignal + int(unix.SIGKILL)
	if !r.watch.ending {
		r.failure = ErrGuardGone
	}
	r.watch.over(Now())
}

func (r *run) onAnnounced(err error) {
	r.announced = nil
	switch {
	case r.watch.ending, err == nil && r.guard.say(sayOpen, 0):
		return
	case err == nil:
		err = ErrGuardGone
	}
	r.failure = fmt.Errorf("%w: %w", ErrNotAnnounced, err)
	r.guard.signal(unix.SIGKILL)
}

// onSignal passes a signal on. Those of the terminal's foreground reach the
// command's group by themselves; here are the ones sent to this process.
func (r *run) onSignal(sig os.Signal) {
	s, ok := sig.(unix.Signal)
	if !ok {
		return
	}
	switch s {
	case unix.SIGTSTP:
		r.stopAsked = true // this process stops once the command has: it must watch one that does not
		r.guard.signal(unix.SIGTSTP)
	case unix.SIGCONT:
		r.terminal.give(r.guard.group.ID)
		r.guard.signal(unix.SIGCONT)
	default:
		r.guard.signal(s)
	}
}

// onStopped stops this process too when that is what a shell expects: the
// command was stopped at the terminal, or by a signal that was passed on.
func (r *run) onStopped() {
	switch {
	case r.terminal != nil:
		r.suspend(0) // the whole job: all of this process's group
	case r.stopAsked:
		r.suspend(os.Getpid())
	}
	r.stopAsked = false
}

// suspend stops target, this process or (0) its group, so that the shell sees
// the job stopped, and puts the stopped command on again when somebody continues
// it. While the command is stopped there is time to hear whether the lease was
// renewed meanwhile; the clock decides before it may go on.
func (r *run) suspend(target int) {
	const (
		stopTime = 250 * time.Millisecond // this process has stopped by then
		catchUp  = 250 * time.Millisecond
	)
	r.terminal.take(r.guard.group.ID)
	if shellWatches() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, unix.SIGCONT)
		defer signal.Stop(continued)
		// Not SIGTSTP: that one is caught here, and Go cannot give it back.
		r.guard.say(saySuspended, 0)
		_ = unix.Kill(target, unix.SIGSTOP)
		timer := time.NewTimer(stopTime)
		defer timer.Stop()
		select {
		case <-continued:
		case <-timer.C:
		}
	}
	if Now() >= r.cfg.Lease.Deadline()-2*r.cfg.Grace {
		r.cfg.Lease.Renewed(catchUp)
	}
	if r.look() || r.watch.ending {
		return
	}
	r.tellDeadline()
	r.guard.say(sayResumed, 0)
	r.terminal.give(r.guard.group.ID)
	r.guard.signal(unix.SIGCONT)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
