package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// play runs a demo of three workers in virtual time, and returns what it printed.
func play(ctx context.Context, t *testing.T, cfg Config, prepare func(*fakeCluster)) (*Result, string, error) {
	t.Helper()
	var out bytes.Buffer
	cfg.Nodes, cfg.Stdout = 3, &out
	if cfg.For == 0 {
		cfg.For = 9 * time.Second
	}
	c := newFakeCluster()
	if prepare != nil {
		prepare(c)
	}
	r := newRace(&cfg, c.launch, c.now)
	r.ports = func(n int) ([]string, error) { return slices.Repeat([]string{"127.0.0.1:1"}, n), nil }
	result, err := r.run(ctx)
	if r.fleet != nil && r.fleet.alive != 0 {
		t.Errorf("%d processes are left, want none", r.fleet.alive)
	}
	return result, out.String(), err
}

func TestRacePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r, out, err := play(t.Context(), t, Config{Seed: 3}, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := r.Err(); err != nil {
			t.Errorf("the verdict is %v, want none\n%s", err, out)
		}
		if took := time.Since(begin); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("the demo took %v, want 9s and the quarantine", took)
		}
		if r.Seconds < 8.9 || r.Seconds > 9.1 {
			t.Errorf("it says it took %v s, want 9", r.Seconds)
		}
		if r.Acquisitions < 200 || r.Handovers < 50 || r.Killed != "n2" || r.Restarted != "n2" {
			t.Errorf("want at least 200 acquisitions, 50 hand-overs, and n2 killed and restarted, got %+v", r)
		}
		if r.MessagesPerLock < 5.5 || r.MessagesPerLock > 6.5 {
			t.Errorf("%v messages a lock, want about 6: each fake node sends 6 for a lock", r.MessagesPerLock)
		}
		if total := r.PerNode["n1"] + r.PerNode["n2"] + r.PerNode["n3"]; total != r.Acquisitions {
			t.Errorf("the nodes have %v acquisitions, want %d together", r.PerNode, r.Acquisitions)
		}
		for _, want := range []string{
			"its root is n2", "quarantine for 1.1s", "  3.0s  SIGKILL to n2", "first to have the lock after the kill",
			"  6.0s  restarted n2", "n2 has the lock again", "  9.0s  time is over", "overlaps          0", "PASS",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the text lacks %q:\n%s", want, out)
			}
		}
		if lines := strings.Count(out, "\n"); lines > 40 {
			t.Errorf("%d lines for 9 s, want at most 40", lines)
		}
	})
}

func TestRaceSeedDecidesPauses(t *testing.T) {
	run := func(seed uint64) (out string) {
		synctest.Test(t, func(t *testing.T) {
			r, text, err := play(t.Context(), t, Config{Seed: seed, JSON: true}, nil)
			if err != nil || !r.OK {
				t.Fatalf("seed %d: %v, %+v", seed, err, r)
			}
			out = text
		})
		return out
	}
	if run(1) == run(2) {
		t.Error("seeds 1 and 2 gave the same, want different pauses")
	}
}

func TestRaceWithoutLockFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out, err := play(t.Context(), t, Config{Break: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Overlaps == 0 || r.OK || !errors.Is(r.Err(), ErrVerdict) || !strings.Contains(out, "\nFAIL: ") || strings.Contains(out, "PASS") {
			t.Errorf("all are let in at once: want overlaps and a FAIL, got %+v\n%s", r, out)
		}
	})
}

func TestRaceJSONOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out, err := play(t.Context(), t, Config{JSON: true, Seed: 5}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got Result
		d := json.NewDecoder(strings.NewReader(out))
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if d.More() || strings.Count(out, "\n") != 1 {
			t.Errorf("more than one line of one object:\n%s", out)
		}
		if got.Acquisitions != r.Acquisitions || got.Seed != 5 || !got.OK {
			t.Errorf("printed %s, but the result is %+v", out, r)
		}
	})
}

func TestRaceStarvedNodeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, err := play(t.Context(), t, Config{}, func(c *fakeCluster) {
			c.starve = func(name string, life int) bool { return name == "n2" && life == 2 }
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.OK || len(r.Failures) != 1 || !strings.Contains(r.Failures[0], "n2") {
			t.Errorf("the restarted process never had the lock: want this one failure, got %v", r.Failures)
		}
	})
}

func TestRaceEndsWithAnError(t *testing.T) {
	boom := errors.New("boom")
	taken := os.NewSyscallError("bind", syscall.EADDRINUSE)
	for _, tc := range []struct {
		name    string
		prepare func(*fakeCluster)
		wants   []string
	}{
		{
			name:    "no process gets the lock",
			prepare: func(c *fakeCluster) { c.starve = func(string, int) bool { return true } },
			wants:   []string{"no process had the lock within 20s"},
		},
		{
			name: "one cannot start",
			prepare: func(c *fakeCluster) {
				c.startErr = func(name string, _ int) error {
					if name == "n3" {
						return boom
					}
					return nil
				}
			},
			wants: []string{"n3", "boom"},
		},
		{
			name: "one ends by itself",
			prepare: func(c *fakeCluster) {
				c.lockErr = func(name string, _ int) error {
					if name == "n1" && c.now() > 5*time.Second {
						return boom
					}
					return nil
				}
			},
			wants: []string{"n1", "ended by itself", "boom"},
		},
		{
			name:    "the ports are always taken",
			prepare: func(c *fakeCluster) { c.startErr = func(string, int) error { return taken } },
			wants:   []string{"address already in use"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, out, err := play(t.Context(), t, Config{}, tc.prepare)
				if err == nil {
					t.Fatalf("want an error, got %+v\n%s", r, out)
				}
				for _, want := range tc.wants {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error is %q, want it to tell %q", err, want)
					}
				}
			})
		})
	}
}

func TestRaceTakesOtherPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		r, out, err := play(t.Context(), t, Config{}, func(c *fakeCluster) {
			c.startErr = func(name string, _ int) error {
				if name == "n3" && taken < maxAssemblies-1 {
					taken++
					return fmt.Errorf("listen: %w", os.NewSyscallError("bind", syscall.EADDRINUSE))
				}
				return nil
			}
		})
		if err != nil || !r.OK {
			t.Errorf("n3's port was taken %d times, then free: want a PASS, got %v, %+v\n%s", taken, err, r, out)
		}
		if taken != maxAssemblies-1 {
			t.Errorf("%d starts failed, want %d", taken, maxAssemblies-1)
		}
	})
}

func TestRaceRestartWaitsForItsPort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		taken  int // starts that find the port taken
		errors bool
	}{{"for a second", 4, false}, {"for ever", 1000, true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, out, err := play(t.Context(), t, Config{For: 30 * time.Second}, func(c *fakeCluster) {
					c.startErr = func(name string, start int) error {
						if name == "n2" && start > 1 && start <= 1+tc.taken {
							return os.NewSyscallError("bind", syscall.EADDRINUSE)
						}
						return nil
					}
				})
				switch {
				case tc.errors && (err == nil || !strings.Contains(err.Error(), "port")):
					t.Errorf("want an error that tells of the port, got %v\n%s", err, out)
				case !tc.errors && (err != nil || !r.OK):
					t.Errorf("want a PASS, got %v\n%s", err, out)
				}
			})
		})
	}
}

func TestRaceInterrupted(t *testing.T) {
	for _, after := range []time.Duration{time.Nanosecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			begin := time.Now()
			_, _, err := play(ctx, t, Config{}, nil)
			if !errors.Is(err, ErrInterrupted) {
				t.Errorf("after %v: the error is %v, want ErrInterrupted", after, err)
			}
			if took := time.Since(begin); took > after+100*time.Millisecond {
				t.Errorf("interrupted after %v, over after %v", after, took)
			}
		})
	}
}

// TestRaceDeathInside kills a process inside: the judge has to take it out.
func TestRaceDeathInside(t *testing.T) {
	var out bytes.Buffer
	r := newRace(&Config{Nodes: 3, Stdout: &out}, nil, func() time.Duration { return 40 })
	defer r.timer.Stop()
	r.phase = phaseWithout
	r.fleet = newFleet(nil, r.now, workerConfig{})
	_, in := io.Pipe()
	for i, name := range r.names {
		p := &proc{process: &process{pid: 7, in: in}, number: i, name: name, killed: i == 1, orders: &lineWriter{w: io.Discard}}
		r.fleet.procs = append(r.fleet.procs, p)
	}
	for _, e := range []event{
		{proc: r.fleet.procs[1], at: 10, report: report{Kind: kindEnter, Seq: 1, Had: 10, Deadline: 1000}},
		{proc: r.fleet.procs[1], at: 20, gone: true},
		{proc: r.fleet.procs[2], at: 30, report: report{Kind: kindEnter, Seq: 1, Had: 30, Deadline: 1000}},
	} {
		if err := r.handle(e); err != nil {
			t.Fatal(err)
		}
	}
	if r.judge.overlaps != 0 || r.inside() != "n3" || !strings.Contains(out.String(), "n2 died inside") {
		t.Errorf("%d overlaps, inside is %q, and it printed %q; want 0, n3, that n2 died inside", r.judge.overlaps, r.inside(), out.String())
	}
}

// TestRaceMistrustsNonsense ends without a verdict when a process breaks the rules.
func TestRaceMistrustsNonsense(t *testing.T) {
	r := newRace(&Config{Nodes: 3, Stdout: io.Discard}, nil, func() time.Duration { return 40 })
	defer r.timer.Stop()
	r.phase = phaseAgain
	p := &proc{process: &process{pid: 7}, name: "n1", orders: &lineWriter{w: io.Discard}}
	if err := r.handle(event{proc: p, report: report{Kind: kindLeave, Seq: 1}}); err == nil || !strings.Contains(err.Error(), "n1") {
		t.Errorf("n1 left what it had not entered: the error is %v, want one that names it", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{Nodes: 3, For: 6 * time.Second}, true},
		{Config{Nodes: MaxNodes, For: MaxFor}, true},
		{Config{Nodes: 2, For: 20 * time.Second}, false},
		{Config{Nodes: MaxNodes + 1, For: 20 * time.Second}, false},
		{Config{Nodes: 7, For: 5999 * time.Millisecond}, false},
		{Config{Nodes: 7, For: MaxFor + 1}, false},
		{Config{}, false},
	} {
		err := tc.cfg.Validate()
		if (err == nil) != tc.ok || (err != nil && !errors.Is(err, ErrUsage)) {
			t.Errorf("%d nodes for %v: %v, want valid %v", tc.cfg.Nodes, tc.cfg.For, err, tc.ok)
		}
	}
}

func TestNodeNamesSortAsNumbers(t *testing.T) {
	for _, n := range []int{3, 7, 15, MaxNodes} {
		names := nodeNames(n)
		if len(names) != n || !slices.IsSorted(names) {
			t.Errorf("%d names are %v, want them in the order of their bytes", n, names)
		}
	}
}
