package runner

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStatusIsThatOfTheCommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "exit 5\n", 0o755)
	data := write("data", "no program", 0o644)
	noInterpreter := write("odd", "#!/no/such/interpreter\n", 0o755)
	tests := []struct {
		name string
		args []string
		want int
	}{
		{"success", []string{"true"}, 0},
		{"failure", []string{"sh", "-c", "exit 7"}, 7},
		{"killed by TERM", []string{"sh", "-c", "kill -TERM $$"}, 143},
		{"killed by KILL", []string{"sh", "-c", "kill -KILL $$"}, 137},
		{"a script without #!", []string{plain}, 5},
		{"not found", []string{"no-such-command-here"}, 127},
		{"no such path", []string{filepath.Join(dir, "none")}, 127},
		{"not executable", []string{data}, 126},
		{"a directory", []string{dir}, 126},
		{"no interpreter", []string{noInterpreter}, 127},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start(t, subjectOptions{}, test.args...).want(test.want, false)
		})
	}
}

func TestLineOfShellIsHintedAt(t *testing.T) {
	t.Parallel()
	o := start(t, subjectOptions{}, "echo hello").want(127, false)
	if !strings.Contains(o.err, "sh -c") {
		t.Errorf("got %q, want a hint at sh -c", o.err)
	}
}

func TestStreamsAndDescriptorsPass(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	s := start(t, subjectOptions{extra: []*os.File{w}}, "sh", "-c", `read x; echo "got $x"; echo fd >&5; ls /proc/self/fd | wc -l`)
	_ = w.Close()
	if _, err := io.WriteString(s.stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	s.wantLine("got hello")
	plain := exec.Command("sh", "-c", "ls /proc/self/fd | wc -l")
	plain.ExtraFiles = []*os.File{os.Stdin} // stands for descriptor 5
	out, err := plain.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.line(), strings.TrimSpace(string(out)); got != want {
		t.Errorf("the command has %s descriptors, want %s as without a lease", got, want)
	}
	s.want(0, false)
	if text, err := io.ReadAll(r); err != nil || string(text) != "fd\n" {
		t.Errorf("descriptor 5 got %q (%v), want %q", text, err, "fd\n")
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startCatcher(t, subjectOptions{}, name+":9")
			s.signal(sig)
			s.wantLine(name)
			s.want(9, false)
		})
	}
}

func TestIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	s := startCatcher(t, subjectOptions{prefix: []string{"nohup"}}, "WINCH:4")
	s.signal(syscall.SIGHUP)
	s.signal(syscall.SIGWINCH) // reaches the command after a HUP would have
	s.want(4, false)
}

// The command gets TERM at the deadline - 2G, and nothing harder if it ends.
func TestCommandGetsTermInTime(t *testing.T) {
	t.Parallel()
	deadline := Now() + 1500*time.Millisecond
	s := startCatcher(t, subjectOptions{grace: 500 * time.Millisecond}, "TERM:0")
	s.setDeadline(deadline)
	s.wantLine("TERM")
	o := s.want(0, true)
	if o.at < deadline-2*500*time.Millisecond || o.at >= deadline {
		t.Errorf("the command was over %v before the deadline, want at most 2G = 1s", deadline-o.at)
	}
}

// A command that ignores TERM is dead by the deadline, with all of its group and
// whoever left the group.
func TestStubbornCommandIsKilledBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const grace = 500 * time.Millisecond
	deadline := Now() + 2*time.Second
	script := `trap '' TERM
(while :; do sleep 0.05; done) & echo $!
` + modeVariable + `=` + modeEscape + ` ` + exe + ` &
echo $$
while :; do sleep 0.05; done`
	s := start(t, subjectOptions{grace: grace}, "sh", "-c", script)
	pids := []int{s.number(), s.number(), s.number()} // the last two in any order
	for _, pid := range pids {
		if !runs(pid) {
			t.Fatalf("process %d of %v does not run", pid, pids)
		}
	}
	s.setDeadline(deadline)
	o := s.want(0, true)
	if o.at < deadline-grace || o.at >= deadline {
		t.Errorf("all was over %v before the deadline, want a little less than G = %v", deadline-o.at, grace)
	}
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d of %v still runs after the result", pid, pids)
		}
	}
}

// A grandchild in the group that outlives the command's TERM is waited for.
func TestGrandchildIsWaitedForWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{grace: 400 * time.Millisecond}, "sh", "-c", `(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait`)
	s.wantLine("up")
	g := s.group()
	deadline := Now() + time.Second
	s.setDeadline(deadline)
	o := s.want(0, true)
	if (Processes{}).GroupAlive(g.ID, g.LeaderStart) || o.at < deadline-400*time.Millisecond || o.at >= deadline {
		t.Errorf("result %v before the deadline, group alive: %v", deadline-o.at, Processes{}.GroupAlive(g.ID, g.LeaderStart))
	}
}

func TestBackgroundIsNotWaitedForWhenAllIsWell(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{}, "sh", "-c", `sleep 100 >/dev/null 2>&1 & echo $!; exit 6`)
	pid := s.number()
	s.want(6, false)
	if !runs(pid) {
		t.Error("the background process was ended")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// A command that a signal has ended leaves nothing behind, wherever that went.
func TestSignaledCommandLeavesNothing(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, subjectOptions{}, "sh", "-c", `(trap '' TERM; while :; do sleep 0.05; done) & echo $!
`+modeVariable+`=`+modeEscape+` `+exe+` &
while :; do sleep 0.05; done`)
	pids := []int{s.number(), s.number()}
	s.signal(syscall.SIGTERM)
	s.want(143, false)
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d of %v still runs after the result", pid, pids)
		}
	}
}

func TestDeadlineMovesOn(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	s := start(t, subjectOptions{lease: lease, grace: 100 * time.Millisecond}, "sh", "-c", `read x; exit 4`)
	began := Now()
	renew := time.NewTicker(100 * time.Millisecond)
	defer renew.Stop()
	for Now() < began+2*lease {
		<-renew.C
		s.setDeadline(Now() + lease)
	}
	_ = s.stdin.Close()
	s.want(4, false)
}

// Once the command has been told to end, a late renewal changes nothing.
func TestRenewalAfterTermComesTooLate(t *testing.T) {
	t.Parallel()
	const grace = 500 * time.Millisecond
	deadline := Now() + 1500*time.Millisecond
	s := startCatcher(t, subjectOptions{grace: grace}, "TERM")
	s.setDeadline(deadline)
	s.wantLine("TERM")
	s.setDeadline(deadline + time.Hour)
	if o := s.want(0, true); o.at >= deadline {
		t.Errorf("killed %v after the deadline at which it was told to end", o.at-deadline)
	}
}

func TestLossKillsAtOnce(t *testing.T) {
	t.Parallel()
	s := startCatcher(t, subjectOptions{}, "TERM")
	s.say("lost")
	s.want(0, true)
}

func TestClosingAsksFirst(t *testing.T) {
	t.Parallel()
	s := startCatcher(t, subjectOptions{}, "TERM:3")
	s.say("closing")
	s.wantLine("TERM")
	s.want(0, true)
}

func TestClosingKillsByTheDeadline(t *testing.T) {
	t.Parallel()
	deadline := Now() + 1500*time.Millisecond
	s := startCatcher(t, subjectOptions{}, "TERM")
	s.setDeadline(deadline)
	s.say("closing")
	s.wantLine("TERM")
	if o := s.want(0, true); o.at < deadline-testGrace || o.at >= deadline {
		t.Errorf("killed %v before the deadline, want G = %v", deadline-o.at, testGrace)
	}
}

// A stopped command is killed like another one.
func TestStoppedCommandIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{}, "sh", "-c", `echo $$; kill -STOP $$; exit 1`)
	pid := s.number()
	eventually(t, "the command has stopped itself", func() bool { return stateOf(pid) == 'T' })
	deadline := Now() + 600*time.Millisecond
	s.setDeadline(deadline)
	if o := s.want(0, true); o.at >= deadline {
		t.Errorf("killed %v after the deadline", o.at-deadline)
	}
}

// One that would end by TERM gets the chance to.
func TestStoppedCommandSeesTerm(t *testing.T) {
	t.Parallel()
	s := startCatcher(t, subjectOptions{}, "TERM:0")
	g := s.group()
	if err := syscall.Kill(g.ID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command has stopped", func() bool { return stateOf(g.ID) == 'T' })
	s.say("closing")
	s.wantLine("TERM")
	s.want(0, true)
}

// The command does nothing before the agent has noted its group.
func TestCommandWaitsForTheAnnouncement(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{manual: true}, "sh", "-c", `echo $$`)
	g := s.group()
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(g.ID) + "/cmdline")
	if err != nil || !strings.Contains(string(cmdline), GateArgument) {
		t.Fatalf("before the announcement the group's leader is %q (%v), want the gate", cmdline, err)
	}
	if s := (Processes{}).StartTime(g.ID); s != g.LeaderStart || s == 0 {
		t.Errorf("start time %d, announced %d", s, g.LeaderStart)
	}
	s.say("go")
	if pid := s.number(); pid != g.ID {
		t.Errorf("the command is process %d, its group was announced as %d", pid, g.ID)
	}
	s.want(0, false)
}

func TestRefusedAnnouncementRunsNothing(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{manual: true}, "echo", "ran")
	s.group()
	s.say("refuse")
	if o := s.result(); o.lost || !strings.Contains(o.err, ErrNotAnnounced.Error()) {
		t.Errorf("got %+v, want %q", o, ErrNotAnnounced)
	}
	if text, _ := io.ReadAll(s.stdout); len(text) != 0 {
		t.Errorf("the command ran and printed %q", text)
	}
}

// An agent that does not answer must not hold up the end of the lease.
func TestLossBeforeTheAnnouncement(t *testing.T) {
	t.Parallel()
	s := start(t, subjectOptions{manual: true, lease: 600 * time.Millisecond}, "echo", "ran")
	s.group()
	s.want(0, true)
	if text, _ := io.ReadAll(s.stdout); len(text) != 0 {
		t.Errorf("the command ran and printed %q", text)
	}
}

func TestGateRefusesStrangers(t *testing.T) {
	for _, args := range [][]string{nil, {"3"}, {"x", "1", "/bin/true", "true"}, {"999", "1", "/bin/true", "true"}} {
		cmd := exec.Command(os.Args[0], append([]string{GateArgument}, args...)...)
		if err := cmd.Run(); err == nil {
			t.Errorf("the gate ran with %q", args)
		}
	}
}

func TestZombiesAreDead(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var p Processes
	begun := p.StartTime(pid)
	if begun == 0 || !p.Alive(pid, begun) || !p.GroupAlive(pid, begun) {
		t.Errorf("a process that runs: start %d, alive %v, group alive %v", begun, p.Alive(pid, begun), p.GroupAlive(pid, begun))
	}
	if p.Alive(pid, begun+1) || p.GroupAlive(pid, begun+1) {
		t.Error("a process with another start time counts as the same one")
	}
	_ = in.Close()
	eventually(t, "the process is a zombie", func() bool { return stateOf(pid) == 'Z' })
	if err := unix.Kill(-pid, 0); err != nil {
		t.Errorf("a zombie's group cannot be signaled: %v; this test proves nothing", err)
	}
	if p.Alive(pid, begun) || p.GroupAlive(pid, begun) {
		t.Errorf("a zombie: alive %v, group alive %v", p.Alive(pid, begun), p.GroupAlive(pid, begun))
	}
	_ = cmd.Wait()
	if p.Alive(pid, begun) || p.GroupAlive(pid, begun) {
		t.Errorf("a reaped process: alive %v, group alive %v", p.Alive(pid, begun), p.GroupAlive(pid, begun))
	}
}

// The group lives as long as anybody in it does.
func TestGroupOutlivesItsLeader(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	if !(Processes{}).GroupAlive(group, 1) {
		t.Error("the group is dead while a member runs")
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group is dead", func() bool { return !Processes{}.GroupAlive(group, 1) })
}
