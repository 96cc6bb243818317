package sim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/treequorum/dmutex/node/nodetest"
)

func TestRunPassesAndSumsUp(t *testing.T) {
	var out, errOut bytes.Buffer
	status := Run(context.Background(), []string{"run", "--seeds", "5", "--first", "1"}, &out, &errOut)
	for _, want := range []string{"seeds 1 to 5", "5 seeds in", "seeds an hour", "faults:", "rules: R1 ", "PASS"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if status != 0 {
		t.Errorf("status %d, want 0: %s%s", status, out.String(), errOut.String())
	}
}

func TestReplayShowsATrace(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := Run(context.Background(), []string{"replay", "--seed", "1", "--trace", "--lines", "50"}, &out, &errOut); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, errOut.String())
	}
	if lines := strings.Count(out.String(), "\n"); lines < 50 {
		t.Errorf("%d lines, want the 50 of the trace and the sums", lines)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"run", "--seeds", "0"}, {"replay"}, {"nonsense"}, {"run", "--no-such-flag"}} {
		var out, errOut bytes.Buffer
		if status := Run(context.Background(), args, &out, &errOut); status != 64 || errOut.Len() == 0 {
			t.Errorf("%v: status %d, said %q; want 64 and a word", args, status, errOut.String())
		}
	}
}

// Each step of shrink is smaller in one point and leaves what it came from alone.
func TestSmallerOptionsLeaveTheirOriginAlone(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		o := nodetest.Draw(seed)
		before := o.String()
		for _, smaller := range smallerThan(o) {
			if len(smaller.Faults.Kinds) > 0 {
				smaller.Faults.Kinds[0] = 0
			}
		}
		if o.String() != before {
			t.Fatalf("seed %d: options changed from %s to %s", seed, before, o.String())
		}
	}
}

// What a failure needs stays, all else goes.
func TestShrinkKeepsWhatTheFailureNeeds(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		o := nodetest.Draw(seed)
		if len(o.Faults.Kinds) < 3 || o.Net.Loss == 0 {
			continue
		}
		needed := o.Faults.Kinds[1]
		small, tries := shrink(o, func(try nodetest.Options) bool {
			return slices.Contains(try.Faults.Kinds, needed) && try.Net.Loss > 0
		})
		if len(small.Faults.Kinds) != 1 || small.Faults.Kinds[0] != needed || small.Net.Loss == 0 ||
			small.Clients != 0 || small.Net.Duplicate != 0 || small.Calls.Slots > 1 || tries > maxTries {
			t.Fatalf("seed %d shrank in %d tries to %v; want only %v and the loss left", seed, tries, small, needed)
		}
	}
}
