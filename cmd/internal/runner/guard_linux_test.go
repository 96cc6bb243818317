package runner

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While the program is stopped its guard ends the command in time; and the first
// thing after a stop is a look at the clock.
func TestGuardEndsTheCommandOfAStoppedProgram(t *testing.T) {
	t.Parallel()
	deadline := Now() + 1200*time.Millisecond
	s := start(t, subjectOptions{}, "sh", "-c", `trap '' TERM; echo $$; while :; do sleep 0.01; done`)
	pid := s.number()
	s.setDeadline(deadline)
	eventually(t, "the deadline was told", func() bool { return Now() > deadline-900*time.Millisecond })
	s.signal(syscall.SIGSTOP)
	eventually(t, "the program has stopped", func() bool { return stateOf(s.cmd.Process.Pid) == 'T' })
	eventually(t, "the command is dead", func() bool { return !runs(pid) })
	if at := Now(); at < deadline-2*testGrace || at >= deadline {
		t.Errorf("the command was killed %v before the deadline, want G = %v", deadline-at, testGrace)
	}
	s.signal(syscall.SIGCONT)
	s.want(0, true)
}

// kill -9 of the caller takes the command with it, also behind the gate.
func TestCommandDiesWithItsCaller(t *testing.T) {
	for _, behind := range []bool{false, true} {
		t.Run("behind the gate "+strconv.FormatBool(behind), func(t *testing.T) {
			t.Parallel()
			s := start(t, subjectOptions{manual: behind}, "sh", "-c", `echo up; while :; do sleep 0.05; done`)
			g := s.group()
			if !behind {
				s.wantLine("up")
			}
			s.signal(syscall.SIGKILL)
			eventually(t, "the command is dead", func() bool { return !runs(g.ID) })
			eventually(t, "the guard is gone", func() bool { return !runs(g.Guard) })
			if text, _ := io.ReadAll(s.stdout); behind && len(text) != 0 {
				t.Errorf("the command ran and printed %q", text)
			}
		})
	}
}

// After kill -9 of the caller the guard asks the command first, kills what does
// not end within the grace, also out of the group and the session, and goes last.
func TestGuardEndsAllOfADeadCaller(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const grace = time.Second
	script := `trap 'echo TERM' TERM
(trap '' TERM; while :; do sleep 0.05; done) & echo $!
` + modeVariable + `=` + modeEscape + ` ` + exe + ` &
echo $$
while :; do sleep 0.05; done`
	s := start(t, subjectOptions{grace: grace}, "sh", "-c", script)
	pids := []int{s.number(), s.number(), s.number()}
	g := s.group()
	if p := (Processes{}); !p.Alive(g.Guard, g.GuardStart) {
		t.Fatalf("the guard, process %d, does not run", g.Guard)
	}
	began := Now()
	s.signal(syscall.SIGKILL)
	s.wantLine("TERM")
	for _, pid := range pids {
		if !runs(pid) {
			t.Fatalf("process %d of %v was not given its grace", pid, pids)
		}
	}
	eventually(t, "the guard is gone", func() bool { return !runs(g.Guard) })
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d of %v still runs after the guard", pid, pids)
		}
	}
	if took := Now() - began; took < grace {
		t.Errorf("all was over within %v, want the grace of %v", took, grace)
	}
}

// What is meant for a job, or for everybody, does not reach the guard.
func TestGuardOutlivesSignals(t *testing.T) {
	t.Parallel()
	s := startCatcher(t, subjectOptions{}, "WINCH:4")
	g := s.group()
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGALRM,
	} {
		if err := syscall.Kill(g.Guard, sig); err != nil {
			t.Fatal(err)
		}
	}
	if own, err := unix.Getpgid(g.Guard); err != nil || own != g.Guard {
		t.Errorf("the guard is in group %d (%v), want one of its own", own, err)
	}
	s.signal(syscall.SIGWINCH)
	s.want(4, false)
	eventually(t, "the guard is gone", func() bool { return !runs(g.Guard) })
}

// kill -9 of the guard: the kernel kills the command, and the program the rest.
func TestProgramEndsAllOfADeadGuard(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, subjectOptions{}, "sh", "-c", `trap '' TERM
`+modeVariable+`=`+modeEscape+` `+exe+` &
echo $$
while :; do sleep 0.05; done`)
	pids := []int{s.number(), s.number()}
	if err := syscall.Kill(s.group().Guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o := s.want(137, false)
	if !strings.Contains(o.err, ErrGuardGone.Error()) {
		t.Errorf("got %+v, want %q", o, ErrGuardGone)
	}
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d of %v still runs after the result", pid, pids)
		}
	}
}

// A guard that is stopped holds up nothing.
func TestStoppedGuardHoldsUpNothing(t *testing.T) {
	t.Parallel()
	deadline := Now() + 1500*time.Millisecond
	s := start(t, subjectOptions{}, "sh", "-c", `echo $$; while :; do sleep 0.05; done`)
	pid := s.number()
	guard := s.group().Guard
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.setDeadline(deadline)
	eventually(t, "the command is dead", func() bool { return !runs(pid) })
	if at := Now(); at >= deadline {
		t.Errorf("killed %v after the deadline", at-deadline)
	}
	if err := syscall.Kill(guard, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.want(0, true)
}
