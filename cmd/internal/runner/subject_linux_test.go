package runner

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// subject is a running program and what it has told.
type subject struct {
	t       *testing.T
	cmd     *exec.Cmd
	control *os.File
	events  chan string
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  bytes.Buffer
	seen    atomic.Int64 // the group
	guard   atomic.Int64
}

type subjectOptions struct {
	grace  time.Duration
	lease  time.Duration // from now
	manual bool          // the test answers the announcement
	stdin  *os.File      // nil: a pipe
	attr   *syscall.SysProcAttr
	extra  []*os.File
	prefix []string // a program that starts ours
	env    []string
}

const (
	testGrace = 200 * time.Millisecond
	patience  = 20 * time.Second // for what has to happen; not a measure
)

// start runs a command under a lease in a program of its own.
func start(t *testing.T, o subjectOptions, args ...string) *subject {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if o.grace == 0 {
		o.grace = testGrace
	}
	if o.lease == 0 {
		o.lease = time.Hour
	}
	argv := append(append(o.prefix, exe), args...)
	s := &subject{t: t, cmd: exec.Command(argv[0], argv[1:]...), events: make(chan string, 16)}
	s.cmd.Env = append(os.Environ(), modeVariable+"="+modeRun, "RUNNER_TEST_GRACE="+o.grace.String(),
		"GORACE=atexit_sleep_ms=0") // the race detector waits a second at the end of a process otherwise
	s.cmd.Env = append(s.cmd.Env, o.env...)
	s.cmd.SysProcAttr = o.attr
	s.cmd.WaitDelay = time.Second // what a failed test leaves behind may hold the pipes
	controlRead, controlWrite := pipe(t)
	eventsRead, eventsWrite := pipe(t)
	s.control = controlWrite
	s.cmd.ExtraFiles = append([]*os.File{controlRead, eventsWrite}, o.extra...)
	if o.stdin != nil {
		s.cmd.Stdin = o.stdin
	} else if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdout = bufio.NewReader(out)
	s.cmd.Stderr = &s.stderr
	s.setDeadline(Now() + o.lease)
	if !o.manual {
		s.say("go")
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = controlRead.Close(), eventsWrite.Close()
	go s.readEvents(eventsRead)
	t.Cleanup(s.end)
	return s
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (s *subject) readEvents(r *os.File) {
	defer close(s.events)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var g Group
		if _, err := fmt.Sscanf(lines.Text(), "group %d %d %d", &g.ID, &g.LeaderStart, &g.Guard); err == nil {
			s.seen.Store(int64(g.ID))
			s.guard.Store(int64(g.Guard))
		}
		s.events <- lines.Text()
	}
	_ = r.Close()
}

// end leaves nothing behind, also after a failed test.
func (s *subject) end() {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Kill()
	_ = s.control.Close()
	_ = s.cmd.Wait()
	if group := s.seen.Load(); group > 1 {
		_ = unix.Kill(-int(group), unix.SIGKILL)
	}
	if guard := int(s.guard.Load()); guard > 1 {
		_ = unix.Kill(guard, unix.SIGCONT)
		eventually(s.t, "the guard is gone", func() bool { return !runs(guard) })
	}
	if s.t.Failed() {
		s.t.Logf("standard error: %s", s.stderr.String())
	}
}

func (s *subject) say(line string) { _, _ = fmt.Fprintln(s.control, line) }

func (s *subject) setDeadline(d time.Duration) { s.say(fmt.Sprintf("deadline %d", d)) }

func (s *subject) event() string {
	s.t.Helper()
	select {
	case line, ok := <-s.events:
		if !ok {
			s.t.Fatal("the program ended without a word")
		}
		return line
	case <-time.After(patience):
		s.t.Fatal("the program says nothing")
	}
	return ""
}

func (s *subject) group() Group {
	s.t.Helper()
	var g Group
	line := s.event()
	if _, err := fmt.Sscanf(line, "group %d %d %d %d", &g.ID, &g.LeaderStart, &g.Guard, &g.GuardStart); err != nil {
		s.t.Fatalf("got %q, want a group", line)
	}
	return g
}

// outcome is the result, when it came, and whether the program was in the
// foreground of its terminal then.
type outcome struct {
	status     int
	lost       bool
	at         time.Duration
	foreground bool
	err        string
}

// result skips the group when the test did not ask for it.
func (s *subject) result() outcome {
	s.t.Helper()
	line := s.event()
	if strings.HasPrefix(line, "group") {
		line = s.event()
	}
	var o outcome
	if _, err := fmt.Sscanf(line, "result %d %t %d %t", &o.status, &o.lost, &o.at, &o.foreground); err != nil {
		s.t.Fatalf("got %q, want a result: %v", line, err)
	}
	o.err = strings.SplitN(line, " ", 6)[5]
	return o
}

// want checks the result.
func (s *subject) want(status int, lost bool) outcome {
	s.t.Helper()
	o := s.result()
	if o.status != status && !lost || o.lost != lost {
		s.t.Errorf("got status %d, lost %v (%s); want status %d, lost %v", o.status, o.lost, o.err, status, lost)
	}
	return o
}

// line returns the next line of the command's output.
func (s *subject) line() string {
	s.t.Helper()
	text := make(chan string, 1)
	go func() {
		line, _ := s.stdout.ReadString('\n')
		text <- strings.TrimSpace(line)
	}()
	select {
	case line := <-text:
		return line
	case <-time.After(patience):
		s.t.Fatal("the command prints nothing")
	}
	return ""
}

func (s *subject) wantLine(want string) {
	s.t.Helper()
	if got := s.line(); got != want {
		s.t.Fatalf("the command printed %q, want %q", got, want)
	}
}

func (s *subject) number() int {
	s.t.Helper()
	line := s.line()
	n, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatalf("the command printed %q, want a number", line)
	}
	return n
}

func (s *subject) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// eventually waits for a condition that no channel tells of.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func runs(pid int) bool {
	s, err := readStat(pid)
	return err == nil && s.running()
}

func stateOf(pid int) byte {
	s, err := readStat(pid)
	if err != nil {
		return 0
	}
	return s.state
}
