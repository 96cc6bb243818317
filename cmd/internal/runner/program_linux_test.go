package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
	if len(os.Args) > 1 && os.Args[1] == GuardArgument {
		os.Exit(Guard(os.Args[2:], os.Stderr))
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
func (l *scriptedLease) Changed() <-chan struct{} { return l.changed }

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
			_, _ = fmt.Fprintf(events, "group %d %d %d %d\n", g.ID, g.LeaderStart, g.Guard, g.GuardStart)
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
