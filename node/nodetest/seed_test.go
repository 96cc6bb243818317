package nodetest

import (
	"flag"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node/internal/breakage"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed that TestSeed runs")
	linesFlag = flag.Int("lines", 400, "how many lines of its trace TestSeed prints when it fails")
	traceFlag = flag.Bool("trace", false, "whether TestSeed prints the trace of a seed that passes")
	hunt      = flag.Duration("hunt", 0, "how long TestFresh runs fresh seeds")
	firstFlag = flag.Uint64("first", 0, "the first seed that TestFresh runs; 0: by the clock")
)

// run runs a seed, and once more with a trace when it fails.
func run(t *testing.T, o Options) *Result {
	t.Helper()
	r := Run(o, 0)
	if r.Violation != nil {
		t.Error(Run(o, *linesFlag).Report())
	}
	return r
}

// TestSeed replays one seed: go test ./node/nodetest -run TestSeed -seed=N.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	o := Draw(*seedFlag)
	aims()[*aimFlag](&o)
	if f, ok := breakage.Named(*faultFlag); ok {
		o.Broken = breakage.Of(f)
	}
	r := run(t, o)
	t.Logf("%v\n%v", r.Options, r.Stats)
	if *traceFlag && r.Violation == nil {
		for _, line := range Run(o, *linesFlag).Trace {
			t.Log(line)
		}
	}
}

// TestFresh runs seeds that nobody ran before.
func TestFresh(t *testing.T) {
	first, budget := *firstFlag, *hunt
	if first == 0 {
		first = uint64(time.Now().UnixNano() / 1000)
	}
	if budget == 0 {
		budget = 15 * time.Second
		if underRace {
			budget = 3 * time.Second
		}
	}
	var total Stats
	start, seed := time.Now(), first
	for ; time.Since(start) < budget && !t.Failed(); seed++ {
		o := Draw(seed)
		aims()[*aimFlag](&o)
		total.Add(run(t, o).Stats)
	}
	took := time.Since(start).Seconds()
	t.Logf("seeds %d to %d, %.0f cluster seconds a second, %.0f messages a second\n%v", first, seed-1,
		float64(total.Virtual)/1e9/took, float64(total.Messages)/took, total)
}

// TestRegressions runs seeds that failed once, and some of each kind.
func TestRegressions(t *testing.T) {
	failed := []uint64{
		13, 19, 146, 1796112813812784, 1796113023482783, 1796114506325395, 1796114596892689, 1796115797983686,
	}
	for seed := uint64(1); seed <= 30 && !underRace; seed++ {
		failed = append(failed, seed)
	}
	for _, seed := range failed {
		run(t, Draw(seed))
	}
	for name, aim := range aims() {
		for seed := uint64(1); seed <= 3; seed++ {
			o := Draw(seed)
			aim(&o)
			if r := run(t, o); r.Violation != nil {
				t.Errorf("aim %q", name)
			}
		}
	}
}

// TestRunsRepeat shows that a seed decides everything, also with a trace.
func TestRunsRepeat(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		a, b := Run(Draw(seed), 0), Run(Draw(seed), 10)
		if a.Digest != b.Digest || a.Stats != b.Stats {
			t.Errorf("seed %d: digests %x and %x, %v and %v", seed, a.Digest, b.Digest, a.Stats, b.Stats)
		}
		if other := Run(Draw(seed+1000), 0); other.Digest == a.Digest {
			t.Errorf("seeds %d and %d give the same digest %x", seed, seed+1000, a.Digest)
		}
	}
}

// BenchmarkRun tells how fast the simulator is: cluster seconds a second.
func BenchmarkRun(b *testing.B) {
	var virtual float64
	for i := range b.N {
		virtual += float64(Run(Draw(uint64(i%100)+1), 0).Stats.Virtual) / 1e9
	}
	b.ReportMetric(virtual/b.Elapsed().Seconds(), "cluster-s/s")
}
