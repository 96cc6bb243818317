package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardArgs are the arguments behind GuardArgument: the pipes from and to this
// program, grace, tick and deadline in nanoseconds, the command's path, its argv.
func guardArgs(control, events int, cfg *Config, path string) []string {
	return append([]string{
		GuardArgument, itoa(int64(control)), itoa(int64(events)),
		itoa(int64(cfg.Grace)), itoa(int64(cfg.Tick)), itoa(int64(cfg.Lease.Deadline())), path,
	}, cfg.Args...)
}

// guard is the parent of the command. It ends the command by its own clock, and
// when the program that started it is gone.
type guard struct {
	control, events int
	tick            time.Duration
	deadline        time.Duration
	child           *child
	watch           watch
	opened          bool
	suspended       bool // the program that is guarded from was stopped together with the command
	orphaned        bool // that program is gone
	exited          bool // the command itself is over
	over            bool // and so is all that it started: its numbers may be given to others
	goodbye         bool
	unsent          []record // at most one of each kind
}

// Guard runs the command named by args as its parent, until the caller says
// goodbye, or is gone and nothing of the command runs any more. It returns an exit
// status, which nobody needs.
func Guard(args []string, stderr io.Writer) int {
	const usage = 64
	g, path, argv, err := parseGuard(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "dmutex: %v; this is an internal command; use dmutex lock\n", err)
		return usage
	}
	if err = g.settle(); err == nil {
		g.child, err = startChild(path, argv)
	}
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = unix.EIO
		}
		_ = sendRecord(g.events, record{kind: tellFailed, value: uint64(errno)})
		return statusCannotExecute
	}
	g.tell(record{kind: tellStarted, value: uint64(g.child.pid), more: g.child.start})
	g.loop()
	return 0
}

func parseGuard(args []string) (g *guard, path string, argv []string, err error) {
	const fixed = 6
	if len(args) <= fixed {
		return nil, "", nil, errors.New("too few arguments")
	}
	var n [fixed - 1]int64
	var errs [fixed - 1]error
	for i := range n {
		n[i], errs[i] = strconv.ParseInt(args[i], 10, 64)
	}
	if err = errors.Join(errs[:]...); err != nil {
		return nil, "", nil, err
	}
	g = &guard{
		control: int(n[0]), events: int(n[1]), tick: time.Duration(n[3]),
		watch: watch{grace: time.Duration(n[2])}, deadline: time.Duration(n[4]),
	}
	return g, args[fixed-1], args[fixed:], nil
}

// settle makes this process one that nothing but KILL ends, and the parent of
// every orphan below it.
func (g *guard) settle() error {
	unix.CloseOnExec(g.control)
	unix.CloseOnExec(g.events)
	if err := errors.Join(unix.SetNonblock(g.control, true), unix.SetNonblock(g.events, true), becomeSubreaper()); err != nil {
		return err
	}
	// Caught and dropped, not ignored: what is ignored stays so in the command.
	// Those that the caller ignores (nohup) are left alone for the same reason.
	dropped := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGXCPU,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(dropped, sig)
		}
	}
	// So that "killall dmutex" leaves it time to end the command.
	_ = os.WriteFile("/proc/self/comm", []byte("dmutex-guard"), 0)
	return nil
}

// loop returns when there is nothing left to guard.
func (g *guard) loop() {
	readable := newReadiness(g.control)
	defer readable.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// What was said is read before the clock: a deadline that comes late is true
		// all the same.
		g.hear(readable)
		if g.look() {
			return
		}
		g.flush()
		timer.Reset(g.wait())
		select {
		case <-timer.C:
		case <-readable.ready:
			readable.told()
		case event, open := <-g.child.events:
			g.onChild(event, open)
		}
	}
}

// hear reads all that the caller has said.
func (g *guard) hear(readable *readiness) {
	for !g.orphaned {
		r, err := receiveRecord(g.control)
		switch {
		case errors.Is(err, unix.EAGAIN):
			readable.again()
			return
		case err != nil:
			g.onOrphaned()
			return
		}
		g.onRecord(r)
	}
}

func (g *guard) onRecord(r record) {
	switch r.kind {
	case sayDeadline:
		g.deadline = time.Duration(r.value)
	case sayOpen:
		if !g.opened && !g.watch.ending {
			g.opened = true
			g.child.open()
		}
	case sayEnd:
		g.end(time.Duration(r.value) - g.watch.grace)
	case saySuspended:
		g.suspended = true
	case sayResumed:
		g.suspended = false
	case sayGoodbye:
		g.goodbye = true
	case tellStarted, tellFailed, tellStopped, tellEnding, tellExited:
	}
}

// onOrphaned ends the command: nobody is left who could use its result, or could
// be told that the lock is lost.
func (g *guard) onOrphaned() {
	g.orphaned = true
	g.suspended = false
	if !g.goodbye {
		g.end(min(Now()+g.watch.grace, g.deadline-g.watch.grace))
	}
}

// end asks the command to end, with KILL at killAt or before.
func (g *guard) end(killAt time.Duration) {
	if g.watch.ending {
		g.watch.killAt = min(g.watch.killAt, killAt)
		return
	}
	g.watch.ending, g.watch.killAt = true, killAt
	g.terminate()
}

func (g *guard) terminate() {
	g.tell(record{kind: tellEnding})
	g.flush() // before the command's status can be known
	g.child.terminate()
}

// look reads the clock, ends what has to end, and reports whether all is over.
func (g *guard) look() bool {
	switch {
	case g.goodbye, g.over:
		return g.goodbye || g.orphaned
	case g.suspended && !g.watch.ending:
		g.lookSuspended()
		return false
	}
	switch g.watch.step(Now(), g.deadline) {
	case actTerminate:
		g.terminate()
	case actKill:
		g.tell(record{kind: tellEnding})
		g.flush()
		killAll(g.child.pid, 0)
	case actNothing:
		if g.watch.killed {
			killAll(g.child.pid, 0) // those that were forked meanwhile
		}
	}
	g.over = g.watch.ending && g.exited && !reap()
	return g.over && g.orphaned
}

// lookSuspended lets a command that is stopped be: whoever continues it asks the
// clock first. What runs on nevertheless must not do so under a lock that is lost.
func (g *guard) lookSuspended() {
	if Now() < g.deadline-g.watch.grace {
		return
	}
	for _, s := range descendants(g.child.pid, 0) {
		if s.state != 'T' && s.state != 't' {
			g.watch.over(Now())
			return // the next look kills
		}
	}
}

// wait returns for how long nothing has to be looked at.
func (g *guard) wait() time.Duration {
	const whileDying = 10 * time.Millisecond
	switch {
	case g.over, g.suspended && !g.watch.ending:
		return g.tick
	case g.watch.ending:
		return min(g.watch.wait(Now(), g.deadline, g.tick), whileDying)
	}
	return g.watch.wait(Now(), g.deadline, g.tick)
}

func (g *guard) onChild(event childEvent, open bool) {
	switch {
	case !open:
		g.child.events = nil
	case event.stopped:
		g.tell(record{kind: tellStopped})
	default:
		g.exited = true
		r := record{kind: tellExited, value: uint64(event.status)}
		if event.signaled {
			r.more = 1
		}
		g.tell(r)
	}
}

// tell leaves a stop out that the caller has not been told twice: it would stop
// only once.
func (g *guard) tell(r record) {
	for _, u := range g.unsent {
		if u.kind == r.kind {
			return
		}
	}
	g.unsent = append(g.unsent, r)
}

func (g *guard) flush() {
	for len(g.unsent) > 0 {
		if errors.Is(sendRecord(g.events, g.unsent[0]), unix.EAGAIN) {
			return
		}
		g.unsent = g.unsent[1:] // sent, or nobody will ever read it
	}
}

// readiness tells when a descriptor can be read, without reading from it.
type readiness struct {
	ready   chan struct{}
	next    chan struct{}
	waiting bool
}

func newReadiness(fd int) *readiness {
	r := &readiness{ready: make(chan struct{}, 1), next: make(chan struct{}, 1)}
	go func() {
		for range r.next {
			for {
				_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
				if !errors.Is(err, unix.EINTR) {
					break
				}
			}
			r.ready <- struct{}{}
		}
	}()
	return r
}

// again asks to be told of the next time, unless that is asked already.
func (r *readiness) again() {
	if !r.waiting {
		r.waiting = true
		r.next <- struct{}{}
	}
}

// told must be called for each value of ready.
func (r *readiness) told() { r.waiting = false }

func (r *readiness) stop() { close(r.next) }
