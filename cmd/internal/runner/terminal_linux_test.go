package runner

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new terminal that echoes nothing.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	attr, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	attr.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(program.Fd()), unix.TCSETS, attr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = person.Close(), program.Close() })
	return person, program
}

// startAtTerminal starts the program as the leader of a session at a new
// terminal.
func startAtTerminal(t *testing.T, o subjectOptions, args ...string) (*subject, *os.File) {
	t.Helper()
	person, program := openTerminal(t)
	o.stdin = program
	o.attr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s := start(t, o, args...)
	return s, person
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func TestCommandReadsTheTerminal(t *testing.T) {
	t.Parallel()
	s, person := startAtTerminal(t, subjectOptions{}, "sh", "-c", `read x; echo "got $x"; exit 3`)
	write(t, person, "hello\n")
	s.wantLine("got hello")
	if o := s.want(3, false); !o.foreground {
		t.Error("the program is not in the foreground again")
	}
}

// Who reads the terminal from the background is stopped, which a shell tells.
func TestCommandReadsTheTerminalOfAShell(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no shell with job control here")
	}
	t.Parallel()
	shellRead, shellWrite := pipe(t)
	o := subjectOptions{
		prefix: []string{"bash", "--norc", "-i", "-c", `"$@"; echo "shell $?" >&5`, "bash"}, extra: []*os.File{shellWrite},
	}
	s, person := startAtTerminal(t, o, "sh", "-c", `read x; echo "got $x"; exit 3`)
	_ = shellWrite.Close()
	write(t, person, "hello\n")
	s.wantLine("got hello")
	s.want(3, false)
	if line, err := bufio.NewReader(shellRead).ReadString('\n'); err != nil || line != "shell 3\n" {
		t.Errorf("the shell says %q (%v), want the command's status only", line, err)
	}
}

func TestInterruptKeyReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	s, person := startAtTerminal(t, subjectOptions{}.catcher(t), os.Args[0], "INT", "QUIT:7")
	s.wantLine("up")
	write(t, person, "\x03")
	s.wantLine("INT")
	write(t, person, "\x1c")
	s.wantLine("QUIT") // and not a second INT
	s.want(7, false)
}

// The key that stops a job gives the terminal back to the shell; fg goes on
// where it was, if the lease was renewed, and kills the command if not.
func TestStopKeyAndForeground(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no shell with job control here")
	}
	for _, renewed := range []bool{true, false} {
		t.Run(fmt.Sprintf("renewed %v", renewed), func(t *testing.T) {
			t.Parallel()
			script := `"$@"; echo "shell $?" >&5; read y; fg >/dev/null; echo "shell $?" >&5`
			shellRead, shellWrite := pipe(t)
			o := subjectOptions{
				prefix: []string{"bash", "--norc", "-i", "-c", script, "bash"}, extra: []*os.File{shellWrite},
			}
			s, person := startAtTerminal(t, o, "sh", "-c", `echo up; read x; echo "got $x"; exit 3`)
			_ = shellWrite.Close()
			shell := bufio.NewReader(shellRead)
			s.wantLine("up")
			s.setDeadline(Now() + 800*time.Millisecond)
			g := s.group()
			write(t, person, "\x1a")
			if line, err := shell.ReadString('\n'); err != nil || line != "shell 147\n" {
				t.Fatalf("the shell says %q (%v), want the status of a stopped job", line, err)
			}
			if state := stateOf(g.ID); state != 'T' {
				t.Errorf("the command's state is %q, want stopped", state)
			}
			timer := time.NewTimer(time.Second) // beyond the deadline
			<-timer.C
			if renewed {
				s.setDeadline(Now() + time.Hour)
			}
			write(t, person, "on\n") // for the shell's read
			status := "shell 3\n"
			if renewed {
				write(t, person, "hello\n")
				s.wantLine("got hello")
				s.want(3, false)
			} else {
				s.want(0, true)
				status = "shell "
			}
			if line, err := shell.ReadString('\n'); err != nil || !strings.HasPrefix(line, status) {
				t.Errorf("the shell says %q (%v), want %q", line, err, status)
			}
			if runs(g.ID) {
				t.Error("the command still runs")
			}
		})
	}
}

// In the background the command must not take the terminal.
func TestBackgroundJobLeavesTheTerminalAlone(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no shell with job control here")
	}
	t.Parallel()
	script := `"$@" & read y; echo "shell got $y" >&5; wait`
	shellRead, shellWrite := pipe(t)
	o := subjectOptions{prefix: []string{"bash", "--norc", "-i", "-c", script, "bash"}, extra: []*os.File{shellWrite}}
	s, person := startAtTerminal(t, o, "sh", "-c", `echo up; while ! [ -e "$0" ]; do sleep 0.01; done; exit 3`, t.TempDir()+"/go")
	_ = shellWrite.Close()
	s.wantLine("up")
	write(t, person, "hello\n")
	line, err := bufio.NewReader(shellRead).ReadString('\n')
	if err != nil || line != "shell got hello\n" {
		t.Errorf("the shell says %q (%v): the terminal was taken from it", line, err)
	}
	if err := os.WriteFile(s.cmd.Args[len(s.cmd.Args)-1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(3, false)
}

// Where no shell could continue a stopped job, the key must not hang it.
func TestStopKeyWithoutAShell(t *testing.T) {
	t.Parallel()
	s, person := startAtTerminal(t, subjectOptions{}.catcher(t), os.Args[0], "CONT", "read")
	s.wantLine("up")
	write(t, person, "\x1a")
	s.wantLine("CONT")
	write(t, person, "hello\n")
	s.wantLine("got hello")
	s.want(0, false)
}
