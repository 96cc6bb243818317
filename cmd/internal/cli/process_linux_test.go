package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/runner"
)

// programVariable makes this test binary the dmutex program.
const programVariable = "DMUTEX_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(Run(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

const (
	testTTL  = 2 * time.Second
	patience = 30 * time.Second // for what has to happen; not a measure
)

// buffer is what a process has written, for several goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// process is the program, running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr buffer
	exit   chan int
}

// programEnvironment makes this test binary the program. The race detector waits a
// second at the end of a process unless it is told not to.
func programEnvironment(api string) []string {
	return append(os.Environ(), programVariable+"=1", "DMUTEX_API="+api, "GORACE=atexit_sleep_ms=0")
}

// launch starts the program. An api that is not empty goes into DMUTEX_API.
func launch(t *testing.T, api string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(exe, args...), exit: make(chan int, 1)}
	p.cmd.Env = programEnvironment(api)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // what a failed test leaves behind may hold the pipes
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = w
	p.stdout = bufio.NewReader(r)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() {
		_ = p.cmd.Wait()
		p.exit <- statusOf(p.cmd.ProcessState)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		_ = r.Close()
		if t.Failed() {
			t.Logf("dmutex %q wrote: %s", args, p.stderr.String())
		}
	})
	return p
}

func statusOf(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return state.ExitCode()
}

// status waits for the end.
func (p *process) status() int {
	p.t.Helper()
	select {
	case status := <-p.exit:
		p.exit <- status
		return status
	case <-time.After(patience):
		p.t.Fatalf("dmutex %q does not end; it wrote: %s", p.cmd.Args[1:], p.stderr.String())
	}
	return 0
}

func (p *process) want(status int) {
	p.t.Helper()
	if got := p.status(); got != status {
		p.t.Errorf("dmutex %q: status %d, want %d; it wrote: %s", p.cmd.Args[1:], got, status, p.stderr.String())
	}
}

// line returns the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	text := make(chan string, 1)
	go func() {
		line, _ := p.stdout.ReadString('\n')
		text <- strings.TrimSuffix(line, "\n")
	}()
	select {
	case line := <-text:
		return line
	case <-time.After(patience):
		p.t.Fatalf("dmutex %q prints nothing; it wrote: %s", p.cmd.Args[1:], p.stderr.String())
	}
	return ""
}

func (p *process) wantLine(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("dmutex %q printed %q, want %q; it wrote: %s", p.cmd.Args[1:], got, want, p.stderr.String())
	}
}

func (p *process) number() int {
	p.t.Helper()
	n, err := strconv.Atoi(p.line())
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *process) wantMessage(text string) {
	p.t.Helper()
	if !strings.Contains(p.stderr.String(), text) {
		p.t.Errorf("dmutex %q wrote %q, want something about %q", p.cmd.Args[1:], p.stderr.String(), text)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// eventually waits for a condition that nothing tells of.
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
	var p runner.Processes
	start := p.StartTime(pid)
	return start != 0 && p.Alive(pid, start)
}

// stopped reports whether the process is stopped by a signal.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(text), "State:\tT")
}

// startAgent starts an agent and returns it with the address of its API.
func startAgent(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	args = append([]string{"agent", "--api", "127.0.0.1:0", "--ttl", testTTL.String(), "--log-format", "json"}, args...)
	p := launch(t, "", args...)
	var api string
	eventually(t, "the agent has started", func() bool {
		select {
		case status := <-p.exit:
			t.Fatalf("the agent ended with status %d: %s", status, p.stderr.String())
		default:
		}
		for line := range strings.Lines(p.stderr.String()) {
			var fields struct{ API, Msg string }
			if json.Unmarshal([]byte(line), &fields) == nil && fields.Msg == "agent started" {
				api = fields.API
			}
		}
		return api != ""
	})
	return p, api
}
