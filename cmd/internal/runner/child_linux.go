package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childEvent is a change of the command itself: it stopped, or it is over.
type childEvent struct {
	stopped  bool
	signaled bool // a signal ended it
	status   int
}

// child is the command, at first behind its gate, as its parent sees it: the
// guard.
type child struct {
	pid    int
	start  uint64 // see Group
	gate   int
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
		hint := ""
		if strings.ContainsAny(name, " \t\n") {
			hint = ": for a line of shell write sh -c and then the line"
		}
		return "", statusNotFound, fmt.Errorf("command %q was not found%s", name, hint)
	default:
		return "", statusCannotExecute, fmt.Errorf("command %q cannot be executed: %w", name, errors.Unwrap(err))
	}
}

// startChild starts the command behind its gate, in a new process group, with the
// streams of this process.
func startChild(path string, argv []string) (*child, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	c := &child{gate: pipe[1], events: make(chan childEvent, 2)}
	started := make(chan error)
	go c.run(pipe[0], path, argv, started)
	err := <-started
	closeAll(pipe[0])
	if err != nil {
		closeAll(pipe[1])
		return nil, err
	}
	return c, nil
}

// run forks and then waits for the command. It keeps its thread until the
// command is over: the kernel sends the death signal when the thread that
// forked ends.
func (c *child) run(gate int, path string, argv []string, started chan<- error) {
	runtime.LockOSThread()
	defer close(c.events)
	pid, err := spawn(gateArgs(gate, os.Getpid(), path, argv), os.Environ(), [3]uintptr{0, 1, 2}, []int{gate},
		syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
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
			c.events <- childEvent{signaled: true, status: statusSignal + int(ws.Signal())}
			return
		}
	}
}

// open lets the command begin.
func (c *child) open() {
	_, _ = unix.Write(c.gate, []byte{1}) // a gate that is gone has an exit status
	closeAll(c.gate)
}

// signal sends sig to the whole group. That it is gone already is no error.
func (c *child) signal(sig unix.Signal) { _ = unix.Kill(-c.pid, sig) }

// terminate asks the group to end, also one that is stopped and would not see it.
func (c *child) terminate() {
	c.signal(unix.SIGTERM)
	c.signal(unix.SIGCONT)
}
