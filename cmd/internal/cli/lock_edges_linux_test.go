package cli

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/api"
)

// launchUnread starts the program with a standard error that nobody reads.
func launchUnread(t *testing.T, address string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = programEnvironment(address)
	cmd.Stderr = w
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), w.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// Nobody reads what lock says: its exit statuses stay what they are.
func TestLockSurvivesABrokenStandardError(t *testing.T) {
	t.Parallel()
	agent, address := startAgent(t, "--dev")
	status := func(ready string, f func(), args ...string) int {
		cmd, out := launchUnread(t, address, args...)
		line := make([]byte, len(ready))
		if _, err := io.ReadFull(out, line); err != nil || string(line) != ready {
			t.Fatalf("the command printed %q (%v), want %q", line, err, ready)
		}
		f()
		_ = cmd.Wait()
		return statusOf(cmd.ProcessState)
	}
	holder := launch(t, address, "lock", "a", "--", "sh", "-c", `echo in; cat`)
	holder.wantLine("in")
	if got := status("", func() {}, "lock", "a", "--wait", "2500ms", "--", "true"); got != exitBusy {
		t.Errorf("a wait ended with %d, want %d", got, exitBusy)
	}
	// What lock survives must still end the command.
	if got := status("", func() {}, "lock", "b", "--", "sh", "-c", "kill -PIPE $$; exit 3"); got != exitSignal+int(syscall.SIGPIPE) {
		t.Errorf("a command that SIGPIPE ends gave %d", got)
	}
	if got := status("up\n", func() { agent.signal(syscall.SIGKILL) }, "lock", "c", "--", "sh", "-c", "echo up; exec sleep 30"); got != exitLost {
		t.Errorf("a loss ended with %d, want %d", got, exitLost)
	}
}

func TestAgentSurvivesABrokenStandardError(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	cmd, _ := launchUnread(t, "", "agent", "--dev", "--api", address, "--log-level", "debug")
	for range 2 {
		launch(t, address, "lock", "a", "--", "true").want(0) // the first waits for the agent
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := statusOf(cmd.ProcessState); status != 0 {
		t.Errorf("the agent ended with status %d, want 0", status)
	}
}

// The reason of a loss is the one of the loss, not of what came after.
func TestLossTellsItsReason(t *testing.T) {
	t.Parallel()
	agent, address := startAgent(t, "--dev")
	p := launch(t, address, "lock", "a", "--", "sh", "-c", loop)
	p.number()
	agent.signal(syscall.SIGSTOP)
	p.want(exitLost)
	p.wantMessage("not renewed: the agent does not answer")
	agent.signal(syscall.SIGKILL)

	peers := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	var members []*process
	for _, peer := range peers {
		var m *process
		m, address = startAgent(t, "--peers", strings.Join(peers, ","), "--listen", peer, "--name", peer)
		members = append(members, m)
	}
	p = launch(t, address, "lock", "a", "--wait", "20s", "--", "sh", "-c", loop)
	p.number()
	members[0].signal(syscall.SIGKILL)
	members[1].signal(syscall.SIGKILL)
	p.want(exitLost)
	p.wantMessage("is not being renewed")
	// The agent says the latter, when it does so before this is over.
	if text := p.stderr.String(); !strings.Contains(text, "(not renewed: too few members answered)") && !strings.Contains(text, "(cut off)") {
		t.Errorf("it wrote %q, want the reason", text)
	}
}

// A port that accepts and says nothing is no agent, and is not waited for for
// ever.
func TestSilentPortIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	began := time.Now()
	p := launch(t, l.Addr().String(), "lock", "a", "--try", "--", "true")
	p.want(exitUnavailable)
	p.wantMessage("within 5s: it is stopped or overloaded")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// While a cluster that was started as a whole is not all there, there is a lock
// and no token.
func TestRequiredTokenIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	peers := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	var address string
	for _, peer := range peers[:2] {
		_, address = startAgent(t, "--peers", strings.Join(peers, ","), "--listen", peer, "--name", peer)
	}
	p := launch(t, address, "lock", "a", "--wait", "20s", "--", "sh", "-c", `echo "token:$DMUTEX_TOKEN"`)
	p.wantLine("token:")
	p.want(0)
	p.wantMessage("no fencing token for a yet: every member must answer once after the whole cluster was started; DMUTEX_TOKEN is empty")
	for _, how := range [][]string{{"--try"}, {"--wait", "2500ms"}} {
		p := launch(t, address, append(append([]string{"lock", "a", "--require-token"}, how...), "--", "echo", "ran")...)
		p.want(exitUnavailable)
		p.wantMessage("every member must answer once")
		if how[0] == "--wait" {
			p.wantMessage("holding a, waiting for its fencing token")
		}
		if line := p.line(); line != "" {
			t.Errorf("%q: the command ran: %q", how, line)
		}
	}
	launch(t, address, "lock", "a", "--try", "--", "true").want(0) // it was released
}

// An agent that is started together with lock is waited for, unless nothing is to
// be waited for.
func TestLockWaitsForTheAgentToListen(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	began := time.Now()
	p := launch(t, address, "lock", "a", "--try", "--", "true")
	p.want(exitUnavailable)
	p = launch(t, address, "lock", "a", "--wait", "0s", "--", "true")
	p.want(exitUnavailable)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("both took %v though nothing was to be waited for", took)
	}
	p = launch(t, address, "lock", "a", "--", "true")
	eventually(t, "it has asked", func() bool { return time.Since(began) > 400*time.Millisecond })
	startAgent(t, "--dev", "--api", address)
	p.want(0)
}

func TestNestedLockIsRefused(t *testing.T) {
	t.Parallel()
	_, address := startAgent(t, "--dev")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, address, "lock", "a", "--", exe, "lock", "a", "--", "echo", "ran")
	p.want(exitUsage)
	p.wantMessage("under the lock a already")
	p = launch(t, address, "lock", "a", "--", exe, "lock", "b", "--", "echo", "ran")
	p.wantLine("ran")
	p.want(0)
}

func TestMembersThatStartAreNamed(t *testing.T) {
	for _, test := range []struct {
		state api.State
		want  string
	}{
		{api.State{}, "not granted yet"},
		{api.State{Holder: "b"}, `node "b" has it`},
		{api.State{Missing: []string{"b", "c"}}, "no answer from b, c"},
		{api.State{Starting: []string{"b"}}, "b was started just now and grant"},
		{api.State{Starting: []string{"a", "b", "c"}}, "a, b, c were started just now and grant nothing for up to T x 1.1 after their start"},
	} {
		if got := waitingText(test.state); !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: got %q, want %q", test.state, got, test.want)
		}
	}
}
