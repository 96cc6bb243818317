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
