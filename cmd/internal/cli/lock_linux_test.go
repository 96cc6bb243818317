package cli

import (
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const loop = `echo $$; while :; do sleep 0.02; done` // prints its pid and stays

func TestLockRunsACommand(t *testing.T) {
	_, api := startAgent(t, "--dev")
	t.Setenv("DMUTEX_TOKEN", "of an outer lock")
	p := launch(t, api, "lock", "dns/example.com", "--", "sh", "-c", `echo "$DMUTEX_LOCK $DMUTEX_TOKEN"; cat; exit 7`)
	name, token, _ := strings.Cut(p.line(), " ")
	first, err := strconv.ParseUint(token, 10, 64)
	if name != "dns/example.com" || err != nil || first == 0 {
		t.Errorf("the command got lock %q and token %q", name, token)
	}
	if _, err := io.WriteString(p.stdin, "through standard input\n"); err != nil {
		t.Fatal(err)
	}
	_ = p.stdin.Close()
	p.wantLine("through standard input")
	p.want(7)
	if text := p.stderr.String(); text != "" {
		t.Errorf("it wrote %q, want nothing", text)
	}
	p = launch(t, api, "lock", "dns/example.com", "--require-token", "--", "sh", "-c", `echo "$DMUTEX_TOKEN"`)
	if second, err := strconv.ParseUint(p.line(), 10, 64); err != nil || second <= first {
		t.Errorf("the second token is %d (%v), the first was %d", second, err, first)
	}
	p.want(0)
	for status, args := range map[int][]string{
		0:   {"true"},
		127: {"no-such-command-here"},
		126: {t.TempDir()},
		143: {"sh", "-c", "kill -TERM $$"},
	} {
		launch(t, api, append([]string{"lock", "a", "--"}, args...)...).want(status)
	}
	launch(t, api, "lock", "a", "--try", "--", "true").want(0) // after all this it is free
}

func TestLockIsBusy(t *testing.T) {
	t.Parallel()
	_, api := startAgent(t, "--dev")
	holder := launch(t, api, "lock", "a", "--", "sh", "-c", `echo in; cat`)
	holder.wantLine("in")
	for _, args := range [][]string{{"--try"}, {"--wait", "0s"}, {"--wait", "200ms"}} {
		p := launch(t, api, append(append([]string{"lock", "a"}, args...), "--", "echo", "ran")...)
		p.want(exitBusy)
		p.wantMessage("busy")
		if line := p.line(); line != "" {
			t.Errorf("%q: the command ran: %q", args, line)
		}
	}
	waiter := launch(t, api, "lock", "a", "--wait", "20s", "--", "echo", "ran")
	other := launch(t, api, "lock", "b", "--", "echo", "ran")
	other.wantLine("ran")
	other.want(0)
	interrupted := launch(t, api, "lock", "a", "--", "echo", "ran")
	eventually(t, "it says that it waits", func() bool { return strings.Contains(interrupted.stderr.String(), "waiting for a") })
	interrupted.signal(syscall.SIGINT)
	interrupted.want(130)
	_ = holder.stdin.Close()
	holder.want(0)
	waiter.wantLine("ran")
	waiter.want(0)
}

func TestLocksNeverOverlap(t *testing.T) {
	t.Parallel()
	_, api := startAgent(t, "--dev")
	inside := filepath.Join(t.TempDir(), "inside")
	var all sync.WaitGroup
	for range 10 {
		p := launch(t, api, "lock", "nightly", "--wait", "25s", "--", "sh", "-c",
			`mkdir "$0" || exit 9; sleep 0.02; rmdir "$0"`, inside)
		all.Go(func() { p.want(0) })
	}
	all.Wait()
}

func TestLockWithoutACommand(t *testing.T) {
	t.Parallel()
	_, api := startAgent(t, "--dev")
	for name, end := range map[string]func(p *process){
		"standard input": func(p *process) { _ = p.stdin.Close() },
		"signal":         func(p *process) { p.signal(syscall.SIGTERM) },
	} {
		p := launch(t, api, "lock", "a")
		eventually(t, "it says that it holds the lock", func() bool { return strings.Contains(p.stderr.String(), "dmutex: holding a, token ") })
		launch(t, api, "lock", "a", "--try", "--", "true").want(exitBusy)
		end(p)
		p.want(0)
		launch(t, api, "lock", "a", "--try", "--", "true").want(0)
		t.Log(name, "ends the hold")
	}
}

// The lock's own clock ends the command, whether the agent is dead or asleep.
func TestCommandEndsWithoutItsAgent(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent, api := startAgent(t, "--dev")
			p := launch(t, api, "lock", "a", "--", "sh", "-c", "trap '' TERM; "+loop)
			pid := p.number()
			agent.signal(sig)
			began := time.Now()
			p.want(exitLost)
			if took := time.Since(began); took > testTTL || took < testTTL/4 {
				t.Errorf("the command was ended after %v, want a little before the lease's end", took)
			}
			if runs(pid) {
				t.Error("the command still runs")
			}
			p.wantMessage("lost a")
		})
	}
}

// kill -9 of lock ends all that it has started, wherever that went, before anybody
// else gets the lock; and so it does when the agent goes as well.
func TestKilledLockFreesWhatNobodyWorksUnder(t *testing.T) {
	for name, command := range map[string][]string{
		"command":       {"sh", "-c", loop},
		"stubborn":      {"sh", "-c", "trap '' TERM; " + loop},
		"child":         {"sh", "-c", "sh -c 'trap \"\" TERM; " + loop + "' & wait"},
		"another group": {"sh", "-c", "timeout 30 sh -c 'trap \"\" TERM; " + loop + "'; true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent, api := startAgent(t, "--dev")
			for _, sig := range []syscall.Signal{0, syscall.SIGTERM} {
				p := launch(t, api, append([]string{"lock", "a", "--"}, command...)...)
				pid := p.number()
				next := launch(t, api, "lock", "a", "--wait", "20s", "--", "sh", "-c",
					"cut -d' ' -f3 /proc/"+strconv.Itoa(pid)+"/stat 2>/dev/null || echo gone")
				p.signal(syscall.SIGKILL)
				if sig == 0 {
					if line := next.line(); line != "Z" && line != "gone" {
						t.Errorf("the next holder sees the process in state %q", line)
					}
					next.want(0)
					continue
				}
				agent.signal(sig)
				agent.want(0) // once nothing runs
				if runs(pid) {
					t.Error("the process still runs after the agent has released its lock")
				}
			}
		})
	}
}

// Stopped for longer than its lease, lock has a guard that goes on.
func TestStoppedLockKillsItsCommand(t *testing.T) {
	t.Parallel()
	agent, api := startAgent(t, "--dev")
	p := launch(t, api, "lock", "a", "--", "sh", "-c", "trap '' TERM; "+loop)
	pid := p.number()
	p.signal(syscall.SIGSTOP)
	eventually(t, "lock has stopped", func() bool { return stopped(t, p.cmd.Process.Pid) })
	agent.signal(syscall.SIGKILL) // nothing is renewed meanwhile
	began := time.Now()
	eventually(t, "the command is dead", func() bool { return !runs(pid) })
	if took := time.Since(began); took > testTTL {
		t.Errorf("the command was killed %v after the last renewal, want less than %v", took, testTTL)
	}
	p.signal(syscall.SIGCONT)
	p.want(exitLost)
}

// An agent that is told to end asks the commands to end, and leaves nothing
// locked that nobody uses.
func TestClosingAgentEndsItsCommands(t *testing.T) {
	t.Parallel()
	agent, api := startAgent(t, "--dev")
	p := launch(t, api, "lock", "a", "--", "sh", "-c", `echo $$; read x`)
	pid := p.number()
	waiter := launch(t, api, "lock", "a", "--", "echo", "ran")
	eventually(t, "it waits", func() bool { return strings.Contains(waiter.stderr.String(), "waiting") })
	agent.signal(syscall.SIGTERM)
	p.want(exitLost)
	p.wantMessage("shutting down")
	if runs(pid) {
		t.Error("the command still runs")
	}
	waiter.want(exitUnavailable)
	agent.want(0)
}

func TestSecondSignalEndsTheAgentAtOnce(t *testing.T) {
	t.Parallel()
	agent, api := startAgent(t, "--dev", "--ttl", "1m")
	p := launch(t, api, "lock", "a", "--", "sh", "-c", "trap '' TERM; "+loop)
	p.number()
	agent.signal(syscall.SIGTERM)
	eventually(t, "the agent closes", func() bool { return strings.Contains(agent.stderr.String(), "second signal") })
	first := time.Now()
	agent.signal(syscall.SIGTERM) // together with the first
	eventually(t, "a while", func() bool { return time.Since(first) > 600*time.Millisecond })
	select {
	case status := <-agent.exit:
		t.Fatalf("the agent has ended with status %d by a signal that came together with the first", status)
	default:
	}
	agent.signal(syscall.SIGTERM)
	agent.want(exitFailure)
}

func TestNoQuorum(t *testing.T) {
	t.Parallel()
	peers := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	_, api := startAgent(t, "--peers", strings.Join(peers, ","), "--listen", peers[0])
	for _, args := range [][]string{{"--try"}, {"--wait", "300ms"}} {
		p := launch(t, api, append(append([]string{"lock", "a"}, args...), "--", "true")...)
		p.want(exitUnavailable)
		p.wantMessage(peers[1])
	}
}

func TestGraceMustFitTheLease(t *testing.T) {
	t.Parallel()
	_, api := startAgent(t, "--dev")
	p := launch(t, api, "lock", "a", "--grace", (testTTL/4 + 1).String(), "--", "echo", "ran")
	p.want(exitUsage)
	p.wantMessage("--grace")
	launch(t, api, "lock", "a", "--try", "--grace", (testTTL / 4).String(), "--", "true").want(0)
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
