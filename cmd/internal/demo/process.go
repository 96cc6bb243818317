package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// maxTrouble is how much of the end of a process's stderr is kept, in bytes.
const maxTrouble = 2 << 10

// process is a started worker, as its judge sees it. In tests it is a goroutine.
type process struct {
	pid  int
	in   io.WriteCloser // orders
	out  io.Reader      // reports, until its end
	kill func() error   // SIGKILL; does not wait
	wait func() error   // blocks until it is dead; call it after the end of out
}

// launcher starts processes from one operating system thread, which lives as
// long as the launcher: on Linux the processes are told to die with the thread
// that started them, so they cannot outlive this one, however it ends.
type launcher struct {
	command []string
	jobs    chan func()
}

// newLauncher returns a launcher that runs command for each process. Close it
// after the last of them is dead.
func newLauncher(command []string) *launcher {
	l := &launcher{command: command, jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

func (l *launcher) close() { close(l.jobs) }

// launch starts one process. It blocks until the process runs, or cannot.
func (l *launcher) launch() (*process, error) {
	cmd := exec.Command(l.command[0], l.command[1:]...)
	dieWithParent(cmd)
	trouble := &tail{}
	cmd.Stderr = trouble
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: make a pipe for a process: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: make a pipe for a process: %w", err)
	}
	started := make(chan error)
	l.jobs <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", strings.Join(l.command, " "), err)
	}
	return &process{
		pid:  cmd.Process.Pid,
		in:   in,
		out:  out,
		kill: cmd.Process.Kill,
		wait: func() error { return explain(cmd.Wait(), trouble) },
	}, nil
}

// explain adds what the process last wrote on stderr to how it ended.
func explain(err error, trouble *tail) error {
	text := trouble.text()
	switch {
	case text == "":
		return err
	case err == nil:
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", err, text)
}

// ownCommand is the command that runs this program with args.
func ownCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("demo: find the program to start for each process: %w", err)
	}
	return append([]string{self}, args...), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if excess := len(t.end) - maxTrouble; excess > 0 {
		t.end = append(t.end[:0], t.end[excess:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
