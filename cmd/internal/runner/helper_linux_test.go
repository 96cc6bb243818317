package runner

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests start this test binary again as a program that runs a command under
// a lease: it gets signals and orphans, and waits for every child, so it cannot
// be the test itself. modeVariable says what the program is to be.
const (
	modeVariable = "RUNNER_TEST_MODE"
	modeRun      = "run"    // [Run] the arguments; the lease comes on descriptor 3
	modeCatch    = "catch"  // a command that tells of its signals, see [catcher]
	modeEscape   = "escape" // print the pid, leave the group and session, stay
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == GateArgument {
		// On a thread that is not the first one, where less comes by itself.
		runtime.LockOSThread()
		status := make(chan int)
		go func() { status <- Gate(os.Args[2:], os.Stderr) }()
		os.Exit(<-status)
	}
	mode := os.Getenv(modeVariable)
	switch mode {
	case "":
		os.Exit(m.Run())
	case modeRun:
		os.Exit(programRun())
	case modeCatch:
		programCatch(os.Args[1:])
	case modeEscape:
		programEscape()
	default:
		fmt.Fprintln(os.Stderr, "unknown mode", mode)
		os.Exit(2)
	}
}

// scriptedLease is moved by lines on descriptor 3.
type scriptedLease struct {
	mu       sync.Mutex
	deadline time.Duration
	changed  chan struct{}
	lost     chan struct{}
	closing  chan struct{}
	announce chan error
}

func (l *scriptedLease) Deadline() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}
func (l *scriptedLease) Lost() <-chan struct{}    { return l.lost }
func (l *scriptedLease) Closing() <-chan struct{} { return l.closing }

func (l *scriptedLease) Renewed(atMost time.Duration) {
	late := time.After(atMost)
	for l.Deadline()-Now() < 2*testGrace {
		select {
		case <-l.changed:
		case <-late:
			return
		}
	}
}

func (l *scriptedLease) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		word, value, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "deadline":
			ns, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				panic(err)
			}
			l.mu.Lock()
			l.deadline = time.Duration(ns)
			l.mu.Unlock()
			select {
			case l.changed <- struct{}{}:
			default:
			}
		case "lost":
			close(l.lost)
		case "closing":
			close(l.closing)
		case "go":
			l.announce <- nil
		case "refuse":
			l.announce <- errors.New("refused")
		}
	}
}

// programRun tells what it sees on descriptor 4: the group, then the result.
func programRun() int {
	control, events := os.NewFile(3, "control"), os.NewFile(4, "events")
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	signals, stop := Signals()
	defer stop()
	lease := &scriptedLease{
		changed: make(chan struct{}, 1), lost: make(chan struct{}), closing: make(chan struct{}), announce: make(chan error, 1),
	}
	input := bufio.NewReader(control)
	first, err := input.ReadString('\n') // the first deadline must be there from the start
	if err != nil {
		panic(err)
	}
	lease.read(strings.NewReader(first))
	go lease.read(input)
	grace, err := time.ParseDuration(os.Getenv("RUNNER_TEST_GRACE"))
	if err != nil {
		panic(err)
	}
	if err := os.Setenv(modeVariable, os.Getenv("RUNNER_TEST_CHILD")); err != nil {
		panic(err)
	}
	result, err := Run(&Config{
		Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lease: lease, Grace: grace, Tick: 50 * time.Millisecond, Signals: signals,
		Announce: func(g Group) error {
			_, _ = fmt.Fprintf(events, "group %d %d\n", g.ID, g.LeaderStart)
			return <-lease.announce
		},
	})
	foreground := controllingTerminal(os.Stdin) != nil && controllingTerminal(os.Stdin).isOurs()
	_, _ = fmt.Fprintf(events, "result %d %v %d %v %v\n", result.Status, result.Lost, Now(), foreground, err)
	return result.Status
}

// programCatch prints "up", then the name of each signal that it gets. A signal
// given as NAME:STATUS ends it. "read" prints a line of standard input and ends
// it with status 0. (Shells lose signals that come while they fork.)
func programCatch(args []string) {
	signals := make(chan os.Signal, 16)
	ends := make(map[string]int)
	for _, arg := range args {
		name, status, isEnd := strings.Cut(arg, ":")
		if name == "read" {
			go func() {
				line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
				fmt.Println("got", strings.TrimSpace(line))
				os.Exit(0)
			}()
			continue
		}
		signal.Notify(signals, unix.SignalNum("SIG"+name))
		if isEnd {
			ends[name], _ = strconv.Atoi(status)
		}
	}
	fmt.Println("up")
	for sig := range signals {
		name := strings.TrimPrefix(unix.SignalName(sig.(syscall.Signal)), "SIG")
		fmt.Println(name)
		if status, ok := ends[name]; ok {
			os.Exit(status)
		}
	}
}

// startCatcher starts a command that tells of its signals and waits until it can.
func startCatcher(t *testing.T, o subjectOptions, args ...string) *subject {
	t.Helper()
	s := start(t, o.catcher(t), append([]string{os.Args[0]}, args...)...)
	s.wantLine("up")
	return s
}

// catcher makes the command another of this test's programs.
func (o subjectOptions) catcher(t *testing.T) subjectOptions {
	t.Helper()
	o.env = append(o.env, "RUNNER_TEST_CHILD="+modeCatch)
	return o
}

func programEscape() {
	if _, err := unix.Setsid(); err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid())
	_ = os.Stdout.Close()
	for {
		_ = unix.Pause()
	}
}

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
	s.cmd.Env = append(append(os.Environ(), modeVariable+"="+modeRun, "RUNNER_TEST_GRACE="+o.grace.String()), o.env...)
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
		if _, err := fmt.Sscanf(lines.Text(), "group %d", &g.ID); err == nil {
			s.seen.Store(int64(g.ID))
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
	if _, err := fmt.Sscanf(line, "group %d %d", &g.ID, &g.LeaderStart); err != nil {
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
