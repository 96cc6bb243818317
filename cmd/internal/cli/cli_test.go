package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/treequorum/dmutex/cmd/internal/api"
	"github.com/treequorum/dmutex/dmutex"
)

// run runs the program in this process, with files as its streams, and returns
// its status and what it wrote.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	streams := Streams{In: open("in"), Out: open("out"), Err: open("err")}
	status = Run(t.Context(), args, streams)
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return status, text("out"), text("err")
}

func TestWrongUsage(t *testing.T) {
	t.Setenv("DMUTEX_API", "127.0.0.1:1") // nobody listens there: what gets so far fails with 69
	tests := []struct {
		args []string
		want string // in the message
	}{
		{[]string{"lokc", "a"}, "unknown command"},
		{[]string{"status", "--help"}, "unknown command"},
		{[]string{"help", "status"}, "unknown command"},
		{[]string{"--nope"}, "--nope"},
		{[]string{"lock"}, "NAME"},
		{[]string{"lock", "--", "true"}, "NAME"},
		{[]string{"lock", "a", "true"}, "--"},
		{[]string{"lock", "a", "b", "--", "true"}, "--"},
		{[]string{"lock", "a", "--"}, "no command"},
		{[]string{"lock", "a", "--", ""}, "no command"},
		{[]string{"lock", ""}, "0 bytes"},
		{[]string{"lock", strings.Repeat("x", 256)}, "256 bytes"},
		{[]string{"lock", "a\nb"}, "U+000A"},
		{[]string{"lock", "a\xff"}, "UTF-8"},
		{[]string{"lock", "a", "--bogus"}, "--bogus"},
		{[]string{"lock", "a", "--wait"}, "--wait"},
		{[]string{"lock", "a", "--wait", "10"}, "10"},
		{[]string{"lock", "a", "--wait", "-1s"}, "negative"},
		{[]string{"lock", "a", "--try", "--wait", "1s"}, "exclude"},
		{[]string{"lock", "a", "--grace", "0s"}, "--grace"},
		{[]string{"lock", "a", "--grace", "-1s"}, "--grace"},
		{[]string{"lock", "a", "--label", strings.Repeat("x", 129)}, "label"},
		{[]string{"lock", "a", "--api", "http://127.0.0.1:7980"}, "--api is host:port, without http://"},
		{[]string{"lock", "a", "--api", "7980"}, "--api is host:port, without http://"},
		{[]string{"lock", "a", "--api", ":7980"}, "loopback"},
		{[]string{"lock", "a", "--api", "192.0.2.1:7980"}, "loopback"},
		{[]string{"agent", "--peers", "a=h:1", "b=h:2", "c=h:3"}, "in one argument, with commas"},
		{[]string{"agent", "--peers", "a=h:1,b=h:2", "--name", "c"}, "or use --client"},
		{[]string{"agent", "--peers", "a=h:1,b=h:2", "--name", "a", "--client"}, "leave --client out"},
		{[]string{"agent", "--peers", "a=h:1,b=h:2", "--name", "c", "--client", "--listen", ":1"}, "leave --listen out"},
		{[]string{"agent", "--peers", "a=h:1,b=h:2,c=h:3"}, "--name a, b or c"},
		{[]string{"agent", "--dev", "--tree-only=perhaps"}, "--tree-only"},
		{[]string{"agent", "x"}, "x"},
		{[]string{"agent"}, "--peers"},
		{[]string{"agent", "--ttl", "3"}, "--ttl"},
		{[]string{"agent", "--dev", "--peers", "a=h:1"}, "--dev"},
		{[]string{"agent", "--dev", "--config", "x.toml"}, "--dev"},
		{[]string{"agent", "--dev", "--api", ":7980"}, "loopback"},
		{[]string{"agent", "--dev", "--api", "0.0.0.0:7980"}, "loopback"},
		{[]string{"agent", "--dev", "--api", "192.0.2.1:7980"}, "loopback"},
		{[]string{"agent", "--dev", "--api", "[::]:7980"}, "loopback"},
		{[]string{"agent", "--dev", "--api", "7980"}, "host:port"},
		{[]string{"agent", "--peers", "a=h:1,b=h:2", "--name", "c"}, `"c"`},
	}
	for _, test := range tests {
		status, stdout, stderr := run(t, test.args...)
		if status != exitUsage || !strings.HasPrefix(stderr, "dmutex: ") || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("dmutex %q: status %d, %q on standard output, message %q; want status %d and a message about %q",
				test.args, status, stdout, stderr, exitUsage, test.want)
		}
	}
}

func TestGoodNamesAreNoUsageError(t *testing.T) {
	t.Setenv("DMUTEX_API", "127.0.0.1:1")
	for _, args := range [][]string{
		{"lock", "nightly", "--try", "--", "true"},
		{"lock", "dns/example.com", "--try"},
		{"lock", "--wait", "200ms", "ü", "--", "sh", "-c", "exit 3"},
		{"lock", strings.Repeat("x", 255), "--try", "--grace", "1s", "--label", strings.Repeat("x", 128)},
	} {
		status, _, stderr := run(t, args...)
		if status != exitUnavailable || !strings.Contains(stderr, "127.0.0.1:1") || !strings.Contains(stderr, "dmutex agent") {
			t.Errorf("dmutex %q: status %d, %q; want status %d, the address and how to start an agent", args, status, stderr, exitUnavailable)
		}
	}
}

func TestAPIFlagWinsOverEnvironment(t *testing.T) {
	t.Setenv("DMUTEX_API", "127.0.0.1:1")
	if _, _, stderr := run(t, "lock", "a", "--try", "--api", "127.0.0.1:2"); !strings.Contains(stderr, "127.0.0.1:2") {
		t.Errorf("asked at %q, want the address of the flag", stderr)
	}
}

func TestHelpShowsExamples(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"agent", "--help"}, {"lock", "--help"}, {"demo", "--help"}, {}} {
		status, stdout, stderr := run(t, args...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, "Examples:\n  dmutex ") {
			t.Errorf("dmutex %q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

func TestVersionIsTold(t *testing.T) {
	status, stdout, stderr := run(t, "--version")
	if status != exitOK || !strings.HasPrefix(stdout, "dmutex version ") || !strings.Contains(stdout, runtime.Version()) {
		t.Errorf("status %d, %q, %q; want the version and the toolchain", status, stdout, stderr)
	}
}

func TestTakenPortsSayWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	for _, args := range [][]string{
		{"agent", "--dev", "--api", addr},
		{"agent", "--peers", "a=" + addr, "--listen", addr, "--api", "127.0.0.1:0"},
	} {
		status, _, stderr := run(t, args...)
		if status != exitFailure || !strings.Contains(stderr, addr) || !strings.Contains(stderr, "choose another") {
			t.Errorf("dmutex %q: status %d, %q; want status %d, the address and what to do", args, status, stderr, exitFailure)
		}
	}
}

func TestFailuresHaveTheirStatus(t *testing.T) {
	tests := []struct {
		err    error
		code   api.Code
		status int
	}{
		{&dmutex.BusyError{Lock: "a", Holder: "b"}, api.CodeBusy, 75},
		{fmt.Errorf("too late: %w", context.DeadlineExceeded), api.CodeBusy, 75},
		{dmutex.ErrOverloaded, api.CodeOverloaded, 75},
		{&dmutex.NoQuorumError{Lock: "a", Missing: []string{"b"}}, api.CodeNoQuorum, 69},
		{&dmutex.PeersDifferError{Peers: []string{"b"}}, api.CodePeersDiffer, 69},
		{dmutex.ErrClosed, api.CodeClosed, 69},
		{dmutex.ErrInvalidName, api.CodeInvalidName, 64},
		{errors.New("odd"), api.CodeInternal, 69},
	}
	for _, test := range tests {
		failure := failureOf(test.err)
		if failure.Code != test.code {
			t.Errorf("%v: code %q, want %q", test.err, failure.Code, test.code)
		}
		var exit *exitError
		if !errors.As(agentError(failure), &exit) || exit.status != test.status {
			t.Errorf("%v: %v, want status %d", test.err, agentError(failure), test.status)
		}
	}
	busy := failureOf(&dmutex.BusyError{Lock: "a", Holder: "b", Ahead: 2, Since: 1500000000})
	if busy.Holder != "b" || busy.Ahead != 2 || busy.SinceMS != 1500 {
		t.Errorf("the facts of a busy lock became %+v", busy)
	}
}

// What the library says about several faults is one message a line, each with
// one prefix.
func TestErrorsArePrintedOneALine(t *testing.T) {
	var out strings.Builder
	printError(&out, fmt.Errorf("cannot start: %w", errors.Join(errors.New("dmutex: one"), errors.New("two"))))
	if got, want := out.String(), "dmutex: cannot start: one\ndmutex: two\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
