package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// buildProgram builds the dmutex program and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes for several seconds")
	}
	path := filepath.Join(t.TempDir(), "dmutex")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/treequorum/dmutex/cmd/dmutex")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
}

// runProgram returns what the program printed and its exit status.
func runProgram(t *testing.T, program string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", cmd.Args, err)
	}
	return out.String(), trouble.String(), cmd.ProcessState.ExitCode()
}

// resultOf checks that stdout is one JSON object with exactly the fields that it
// should have.
func resultOf(t *testing.T, stdout, stderr string) Result {
	t.Helper()
	var r Result
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("want one line of JSON, got %v\n%s\n%s", err, stdout, stderr)
	}
	return r
}

func TestProgram(t *testing.T) {
	program := buildProgram(t)
	t.Run("passes", func(t *testing.T) {
		t.Parallel()
		stdout, stderr, status := runProgram(t, program, "demo", "--nodes", "3", "--for", "8s", "--json", "--seed", "1")
		r := resultOf(t, stdout, stderr)
		if status != 0 || stderr != "" || !r.OK || r.Overlaps != 0 {
			t.Errorf("status %d, stderr %q, result %s; want 0, nothing, no overlaps", status, stderr, stdout)
		}
		if r.Nodes != 3 || r.Seed != 1 || r.Killed == "" || r.Restarted != r.Killed || len(r.PerNode) != 3 {
			t.Errorf("result %s; want 3 nodes, seed 1, one killed and restarted", stdout)
		}
		if r.Acquisitions < 80 || r.Handovers < 20 || r.MessagesPerLock <= 0 || r.KeepalivesPerS <= 0 {
			t.Errorf("result %s; want at least 80 acquisitions, 20 hand-overs, and messages counted", stdout)
		}
	})
	t.Run("fails without the lock", func(t *testing.T) {
		t.Parallel()
		stdout, stderr, status := runProgram(t, program, "demo", "--nodes", "3", "--for", "6s", "--json", "--break")
		r := resultOf(t, stdout, stderr)
		if status != 1 || r.OK || r.Overlaps == 0 || !strings.Contains(stderr, "overlaps") {
			t.Errorf("status %d, stderr %q, result %s; want 1, the overlaps told", status, stderr, stdout)
		}
	})
	t.Run("wrong usage", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"--for", "1s"}, {"--nodes", "2"}, {"--nodes", "x"}, {"more"}, {"--no-such-flag"}} {
			stdout, stderr, status := runProgram(t, program, append([]string{"demo"}, args...)...)
			if status != 64 || stdout != "" || !strings.HasPrefix(stderr, "dmutex: ") {
				t.Errorf("demo %v: status %d, stdout %q, stderr %q; want 64 and a message", args, status, stdout, stderr)
			}
		}
	})
	t.Run("a process by hand", func(t *testing.T) {
		t.Parallel()
		_, stderr, status := runProgram(t, program, "demo", "process")
		if status != 1 || stderr == "" {
			t.Errorf("status %d, stderr %q; want 1 and a message: its standard input is empty", status, stderr)
		}
	})
}
