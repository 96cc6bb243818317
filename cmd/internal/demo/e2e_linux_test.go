package demo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childrenOf lists the live children of pid.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		// pid (name) state ppid ...
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			children = append(children, filepath.Dir(path))
		}
	}
	return children
}

// lives reports whether the process of a directory in /proc still runs the demo;
// a zombie has no command line.
func lives(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	return err == nil && strings.Contains(string(text), "demo\x00process")
}

// TestProgramLeavesNothingBehind ends the parent in the ways that it can end.
func TestProgramLeavesNothingBehind(t *testing.T) {
	program := buildProgram(t)
	for _, tc := range []struct {
		sig    os.Signal
		status int // -1: killed by the signal
	}{{os.Interrupt, 130}, {syscall.SIGTERM, 130}, {syscall.SIGKILL, -1}} {
		t.Run(tc.sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), program, "demo", "--nodes", "3", "--for", "60s")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if strings.Contains(lines.Text(), "first to have the lock") {
					break
				}
			}
			children := childrenOf(t, cmd.Process.Pid)
			if len(children) != 3 {
				t.Errorf("it has the children %v, want 3", children)
			}
			if err := cmd.Process.Signal(tc.sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the status tells
			if got := cmd.ProcessState.ExitCode(); got != tc.status {
				t.Errorf("exit status %d, want %d", got, tc.status)
			}
			awaitDeath(t, children)
		})
	}
}

// awaitDeath gives the kernel a moment.
func awaitDeath(t *testing.T, dirs []string) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(5 * time.Second)
	for _, dir := range dirs {
		for lives(dir) {
			select {
			case <-poll.C:
			case <-limit:
				t.Fatalf("%s still lives 5s after its parent", dir)
			}
		}
	}
}
