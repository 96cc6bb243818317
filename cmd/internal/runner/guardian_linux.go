package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardian is the guard of the command as this program sees it.
type guardian struct {
	group   Group
	control int
	events  chan record   // closed when the guard is gone
	gone    chan struct{} // closed when its exit status was taken
}

// startGuard starts the guard, which starts the command behind its gate.
func startGuard(cfg *Config, path string) (*guardian, error) {
	control, events, err := pipes()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe for the command: %w", err)
	}
	// The guard is told things while it may stand still: that must not stop us.
	err = errors.Join(unix.SetNonblock(control[1], true), unix.SetNonblock(events[0], true))
	if err == nil {
		var pid int
		pid, err = spawn(guardArgs(control[0], events[1], cfg, path), cfg.Env,
			[3]uintptr{cfg.Stdin.Fd(), cfg.Stdout.Fd(), cfg.Stderr.Fd()}, []int{control[0], events[1]}, syscall.SysProcAttr{})
		closeAll(control[0], events[1])
		if err == nil {
			g := &guardian{
				group:   Group{Guard: pid, GuardStart: Processes{}.StartTime(pid)},
				control: control[1], events: make(chan record, 8), gone: make(chan struct{}),
			}
			go g.read(os.NewFile(uintptr(events[0]), "guard"))
			go g.wait()
			return g, g.started()
		}
	}
	closeAll(control[1], events[0])
	return nil, fmt.Errorf("cannot start this program again to run the command: %w", err)
}

// started waits until the command is behind its gate.
func (g *guardian) started() error {
	const patience = 10 * time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case r := <-g.events:
		switch r.kind {
		case tellStarted:
			g.group.ID, g.group.LeaderStart = int(r.value), r.more
			return nil
		case tellFailed:
			err = syscall.Errno(r.value)
		default:
			err = ErrGuardGone
		}
	case <-timer.C:
		err = fmt.Errorf("it did not begin within %v", patience)
	}
	g.dismiss()
	return fmt.Errorf("cannot start the command: %w", err)
}

func (g *guardian) read(events *os.File) {
	defer close(g.events)
	defer func() { _ = events.Close() }()
	for {
		var b [recordSize]byte
		if _, err := io.ReadFull(events, b[:]); err != nil {
			return
		}
		g.events <- parseRecord(b[:])
	}
}

// wait takes the exit status of the guard, and of orphans that came to this
// process meanwhile.
func (g *guardian) wait() {
	defer close(g.gone)
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == g.group.Guard || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// say tells the guard something, and reports whether it will get it.
func (g *guardian) say(kind recordKind, value time.Duration) bool {
	return sendRecord(g.control, record{kind: kind, value: uint64(value)}) == nil
}

// dismiss ends the guard, and leaves alone what still runs. It must be called
// once.
func (g *guardian) dismiss() {
	const patience = time.Second
	g.say(sayGoodbye, 0)
	closeAll(g.control)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g.gone:
	case <-timer.C: // it was stopped
		_ = unix.Kill(g.group.Guard, unix.SIGKILL)
	}
}

// signal sends sig to the command's whole group. That it is gone already is no
// error.
func (g *guardian) signal(sig unix.Signal) { _ = unix.Kill(-g.group.ID, sig) }

// terminate has the command end by the deadline.
func (g *guardian) terminate(deadline time.Duration) {
	if !g.say(sayEnd, deadline) {
		g.signal(unix.SIGTERM)
		g.signal(unix.SIGCONT) // a stopped process would not see it
	}
}
