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
	child     *child
	terminal  *terminal
	watch     watch
	announced <-chan error
	lost      <-chan struct{}
	closing   <-chan struct{}
	notRun    error // why the gate was never opened
	stopAsked bool  // a stop was passed on to the command
	exited    bool  // the command itself is over
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
	r.child, err = startChild(cfg, path)
	if err != nil {
		return Result{}, err
	}
	catchMore(cfg.Signals)
	defer signal.Stop(cfg.Signals)
	r.terminal = controllingTerminal(cfg.Stdin)
	r.terminal.give(r.child.pid)
	defer r.terminal.take(r.child.pid)
	r.announce()
	r.loop()
	if r.notRun != nil && !r.watch.ending {
		return Result{}, r.notRun
	}
	return Result{Status: r.status, Lost: r.watch.ending}, nil
}

// announce tells the agent of the group.
func (r *run) announce() {
	answer := make(chan error, 1)
	r.announced = answer
	go func() { answer <- r.cfg.Announce(Group{ID: r.child.pid, LeaderStart: r.child.start}) }()
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
		timer.Reset(r.wait())
		select {
		case <-timer.C:
		case event, ok := <-r.child.events:
			r.onChild(event, ok)
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
	switch r.watch.step(Now(), r.cfg.Lease.Deadline()) {
	case actTerminate:
		r.terminate()
	case actKill:
		killAll(r.child.pid)
	case actNothing:
	}
	if !r.watch.ending || !r.exited {
		return false
	}
	reap()
	if r.watch.killed {
		return killAll(r.child.pid) == 0
	}
	return len(descendants(r.child.pid)) == 0
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

func (r *run) terminate() {
	r.child.signal(unix.SIGTERM)
	r.child.signal(unix.SIGCONT) // a stopped process would not see it
}

// onClosing ends the command before its time, because the agent goes away.
func (r *run) onClosing() {
	if r.watch.ending {
		return
	}
	r.watch.end(r.cfg.Lease.Deadline())
	r.terminate()
}

func (r *run) onChild(event childEvent, open bool) {
	switch {
	case !open:
		r.child.events = nil
	case event.stopped:
		r.onStopped()
	default:
		r.exited = true
		r.status = event.status
		// Only what ended by itself, within the lease, ended well.
		if !r.watch.ending && (isClosed(r.lost) || Now() >= r.cfg.Lease.Deadline()) {
			r.watch.over(Now())
		}
	}
}

func (r *run) onAnnounced(err error) {
	r.announced = nil
	switch {
	case r.watch.ending:
		return
	case err == nil:
		err = r.child.open()
		if err == nil {
			return
		}
	}
	r.notRun = fmt.Errorf("%w: %w", ErrNotAnnounced, err)
	r.child.signal(unix.SIGKILL)
}

// onSignal passes a signal on. Those of the terminal's foreground reach the
// command's group by themselves; here are the ones sent to this process.
func (r *run) onSignal(sig os.Signal) {
	s, ok := sig.(unix.Signal)
	if !ok {
		return
	}
	switch s {
	case unix.SIGPIPE:
	case unix.SIGTSTP:
		r.stopAsked = true // this process stops once the command has: it must watch one that does not
		r.child.signal(unix.SIGTSTP)
	case unix.SIGCONT:
		r.terminal.give(r.child.pid)
		r.child.signal(unix.SIGCONT)
	default:
		r.child.signal(s)
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
	r.terminal.take(r.child.pid)
	if shellWatches() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, unix.SIGCONT)
		defer signal.Stop(continued)
		// Not SIGTSTP: that one is caught here, and Go cannot give it back.
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
	r.terminal.give(r.child.pid)
	r.child.signal(unix.SIGCONT)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
