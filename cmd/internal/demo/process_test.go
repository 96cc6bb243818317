package demo

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// TestMain lets the launcher's tests start this test's own program: called with
// one of these arguments it is such a process.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "echo-process": // ends with its input
			_, _ = io.Copy(os.Stdout, os.Stdin)
			os.Exit(0)
		case "failing-process":
			_, _ = io.WriteString(os.Stderr, strings.Repeat("noise ", 10000)+"the reason\n")
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

func launchOne(t *testing.T, argument string) *process {
	t.Helper()
	command, err := ownCommand(argument)
	if err != nil {
		t.Fatal(err)
	}
	l := newLauncher(command)
	t.Cleanup(l.close)
	p, err := l.launch()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLauncherPipes(t *testing.T) {
	p := launchOne(t, "echo-process")
	if _, err := io.WriteString(p.in, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p.out)
	if err := errors.Join(err, p.wait()); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v; want hello", got, err)
	}
}

func TestLauncherKill(t *testing.T) {
	p := launchOne(t, "echo-process")
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(p.out); err != nil {
		t.Errorf("its output ends with %v, want nil", err)
	}
	if err := p.wait(); err == nil {
		t.Error("a killed process ended without an error")
	}
}

func TestLauncherTellsWhatTheProcessSaid(t *testing.T) {
	p := launchOne(t, "failing-process")
	_, _ = io.Copy(io.Discard, p.out)
	err := p.wait()
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") || len(err.Error()) > maxTrouble+100 {
		t.Errorf("the error is %v, want the status, the end of what it wrote, and no more than that", err)
	}
}

func TestLauncherCannotStart(t *testing.T) {
	l := newLauncher([]string{"/there/is/no/such/program"})
	defer l.close()
	if p, err := l.launch(); err == nil || !strings.Contains(err.Error(), "/there/is/no/such/program") {
		t.Errorf("got %v, %v; want an error that names the program", p, err)
	}
}

func TestPortTaken(t *testing.T) {
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := net.Listen("tcp", stream.Addr().String()); !portTaken(err) {
		t.Errorf("%v is not recognized as a taken port", err)
	}
}
