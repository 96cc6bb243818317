package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// childEvent is a change of the command itself: it stopped, or it is over.
type childEvent struct {
	stopped bool
	status  int
}

// child is the command, at first behind its gate.
type child struct {
	pid    int
	start  uint64 // see Group
	gate   *os.File
	events chan childEvent // closed behind the event that says that it is over
}

// lookUp finds the command as a shell does. status is what a shell returns when
// there is an error.
func lookUp(name string) (path string, status int, err error) {
	path, err = exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // "." is in PATH because the user put it there
		return path, 0, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", statusNotFound, fmt.Errorf("command %q was not found", name)
	default:
		return "", statusCannotExecute, fmt.Errorf("command %q cannot be executed: %w", name, errors.Unwrap(err))
	}
}

// startChild starts the command behind its gate, in a new process group.
func startChild(cfg *Config, path string) (*child, error) {
	self := cfg.Self
	if len(self) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("cannot find this program to start it again: %w", err)
		}
		self = []string{exe}
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot make a pipe for the command: %w", err)
	}
	defer func() { _ = unix.Close(pipe[0]) }()
	c := &child{
		gate: os.NewFile(uintptr(pipe[1]), "gate"),
		// Two events at most can wait: the rest is asked for after them.
		events: make(chan childEvent, 2),
	}
	started := make(chan error)
	go c.run(cfg, self, pipe[0], path, started)
	if err := <-started; err != nil {
		_ = c.gate.Close()
		return nil, fmt.Errorf("cannot start %s again to run the command: %w", self[0], err)
	}
	return c, nil
}

// run forks and then waits for the command. It keeps its thread until the
// command is over: the kernel sends the death signal when the thread that
// forked ends.
func (c *child) run(cfg *Config, self []string, gate int, path string, started chan<- error) {
	runtime.LockOSThread()
	defer close(c.events)
	// The descriptor is inherited under its own number: a fixed one might be in
	// use by what the command inherits from our caller.
	if _, err := unix.FcntlInt(uintptr(gate), unix.F_SETFD, 0); err != nil {
		started <- err
		return
	}
	argv := slices.Concat(self, gateArgs(gate, os.Getpid(), path, cfg.Args))
	pid, err := syscall.ForkExec(filepath.Clean(self[0]), argv, &syscall.ProcAttr{
		Env:   cfg.Env,
		Files: []uintptr{cfg.Stdin.Fd(), cfg.Stdout.Fd(), cfg.Stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		started <- err
		return
	}
	c.pid = pid
	c.start = Processes{}.StartTime(pid)
	started <- nil
	c.wait()
}

// wait reports what happens to the command until it is over, and reaps orphans
// that came to this process meanwhile.
func (c *child) wait() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // no child at all: somebody else reaped it
			c.events <- childEvent{status: statusSignal + int(unix.SIGKILL)}
			return
		case pid != c.pid:
		case ws.Stopped():
			c.events <- childEvent{stopped: true}
		case ws.Exited():
			c.events <- childEvent{status: ws.ExitStatus()}
			return
		case ws.Signaled():
			c.events <- childEvent{status: statusSignal + int(ws.Signal())}
			return
		}
	}
}

// open lets the command begin.
func (c *child) open() error {
	_, err := c.gate.Write([]byte{1})
	return errors.Join(err, c.gate.Close())
}

// signal sends sig to the whole group. That it is gone already is no error.
func (c *child) signal(sig unix.Signal) { _ = unix.Kill(-c.pid, sig) }
