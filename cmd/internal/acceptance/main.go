//go:build linux

// Command acceptance starts clusters of real agents on loopback, does to them what
// operators fear, and prints what it measured. It fails when a promise of safety is
// broken: two commands at once, a late writer that is not refused, a wrong exit
// status, a waiter that is never served. Bounds in time are printed next to what was
// measured; a machine that is busy may exceed them, so that alone is a warning.
//
//	go run ./cmd/internal/acceptance [-run REGEXP]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	pattern := flag.String("run", "", "only checks whose name matches")
	keep := flag.Bool("v", false, "show the agents' logs")
	flag.Parse()
	err := run(ctx, os.Stdout, *pattern, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		os.Exit(1)
	}
}

// check is one promise, shown on a cluster of its own.
type check struct {
	name string
	what string
	run  func(context.Context, *report, *bench) error
}

func checks() []check {
	return []check{
		{"exclusion", "ten locks at once from seven agents never interleave", checkExclusion},
		{"status", "exit status: of the command, 75, 69, 70, 64", checkStatus},
		{"kill-holder", "kill -9 of the agent of a holder: command ended first, next one in time", checkKillHolder},
		{"kill-lock", "kill -9 of lock itself: its command, also what left its group, ends before the next one", checkKillLock},
		{"kill-two", "kill -9 of two others: waiting, new and held locks go on", checkKillTwo},
		{"stop-agent", "SIGSTOP of the holder's agent for 2T: ended by its own clock, exit 70", checkStopAgent},
		{"stop-all", "SIGSTOP of agent, lock and command for 2T: the token refuses the late one", checkStopAll},
		{"rolling", "members killed and restarted in turn while a lock is held for 60 s", checkRolling},
		{"configs", "agents that cannot work say why; one that differs is refused, the others go on", checkConfigs},
		{"strangers", "hostile bytes: closed, little memory, the locks go on", checkStrangers},
	}
}

func run(ctx context.Context, out io.Writer, pattern string, verbose bool) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dmutex-acceptance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, program: filepath.Join(dir, "dmutex"), verbose: verbose}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.program, "github.com/treequorum/dmutex/cmd/dmutex")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, text)
	}
	failed, ran := 0, 0
	for _, c := range checks() {
		if !match.MatchString(c.name) {
			continue
		}
		ran++
		r := &report{out: out}
		fmt.Fprintf(out, "\n%s: %s\n", c.name, c.what)
		begin := time.Now()
		if err := c.run(ctx, r, b); err != nil {
			r.fail("%v", err)
		}
		fmt.Fprintf(out, "  %s after %.1f s\n", r.verdict(), time.Since(begin).Seconds())
		if r.failures > 0 {
			failed++
		}
	}
	if ran == 0 {
		return fmt.Errorf("no check matches %q", pattern)
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return ctx.Err()
}

// report prints what a check saw.
type report struct {
	out      io.Writer
	failures int
	late     int
}

func (r *report) say(format string, args ...any) { fmt.Fprintf(r.out, "  "+format+"\n", args...) }

func (r *report) fail(format string, args ...any) {
	r.failures++
	r.say("FAIL "+format, args...)
}

// expect fails the check unless ok.
func (r *report) expect(ok bool, format string, args ...any) {
	if ok {
		r.say("ok   "+format, args...)
	} else {
		r.fail(format, args...)
	}
}

// within prints a time next to its bound.
func (r *report) within(what string, got, bound time.Duration) {
	word := "ok  "
	if got > bound {
		word = "LATE"
		r.late++
	}
	r.say("%s %s: %.3f s, bound %.3f s", word, what, got.Seconds(), bound.Seconds())
}

func (r *report) verdict() string {
	switch {
	case r.failures > 0:
		return "FAILED"
	case r.late > 0:
		return "passed, but late"
	}
	return "passed"
}
