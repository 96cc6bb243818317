package explore

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

var (
	depthFlag    = flag.Int("depth", 0, "how deep TestSearch goes; 0: as deep as each scenario says")
	limitFlag    = flag.Int("limit", NoLimit, "how many states of a scenario TestSearch visits at the most")
	scenarioFlag = flag.String("scenario", "", "the one scenario that is searched")
	faultFlag    = flag.String("fault", "", "the faults of the core, with commas, that TestSearch and TestReplay have")
	skipFlag     = flag.String("skip", "", "the check that TestSearch and TestReplay do not make")
	pathFlag     = flag.String("path", "", "the path that TestReplay follows")
)

// scenario returns one by its name, with the faults and the check of the flags.
func scenario(t *testing.T, name string) Scenario {
	t.Helper()
	for _, sc := range Scenarios() {
		if sc.Name != name {
			continue
		}
		var faults []breakage.Fault
		for text := range strings.SplitSeq(*faultFlag, ",") {
			if f, ok := breakage.Named(text); ok {
				faults = append(faults, f)
			} else if text != "" {
				t.Fatalf("no fault %q", text)
			}
		}
		sc.Fault, sc.Skip = breakage.Of(faults...), Kind(*skipFlag)
		return sc
	}
	t.Fatalf("no scenario %q", name)
	return Scenario{}
}

// TestSearch: nothing is wrong with the core, to this depth.
func TestSearch(t *testing.T) {
	var states, transitions int
	for _, sc := range Scenarios() {
		if *scenarioFlag != "" && sc.Name != *scenarioFlag {
			continue
		}
		sc = scenario(t, sc.Name)
		depth := sc.Depth
		if *depthFlag > 0 {
			depth = *depthFlag
		}
		limit := *limitFlag
		if underRace {
			limit = min(limit, 300)
		}
		start := time.Now()
		r := Search(sc, depth, limit)
		t.Logf("%-11s %v, %v", sc.Name, r, time.Since(start).Round(time.Millisecond))
		states, transitions = states+r.States, transitions+r.Transitions
		if r.Violation != nil {
			t.Error(Report(sc, r))
		}
		if r.States < 100 {
			t.Errorf("%s: %d states are not a search", sc.Name, r.States)
		}
		if strings.HasPrefix(sc.Name, "order") && !r.Closed && *depthFlag == 0 && !underRace {
			t.Errorf("%s was not searched to its end", sc.Name)
		}
	}
	t.Logf("%d states, %d transitions in all", states, transitions)
}

// TestReplay follows one path: see the end of what a failure prints.
func TestReplay(t *testing.T) {
	if *pathFlag == "" {
		t.Skip("no -path")
	}
	path, err := ParsePath(*pathFlag)
	if err != nil {
		t.Fatal(err)
	}
	lines, v := Replay(scenario(t, *scenarioFlag), path)
	t.Log("\n" + strings.Join(lines, "\n"))
	if v != nil {
		t.Errorf("%s: %s", v.Kind, v.Text)
	}
}

// A fault must be found in so many states.
const (
	faultDepth = 20
	faultLimit = 20_000
)

// finds is a fault of the core, where it is found, by which check, and how deep.
type finds struct {
	fault    breakage.Fault
	scenario string
	kind     Kind
	skip     Kind // a check that would find it earlier
}

func findings() []finds {
	return []finds{
		{fault: breakage.ManyGrants, scenario: "order3", kind: TwoHolders, skip: TwoGrants},
		{fault: breakage.ManyGrants, scenario: "order2", kind: TwoGrants, skip: TwoHolders},
		{fault: breakage.NoInquire, scenario: "wakes3", kind: Stuck},
		{fault: breakage.NoYieldNumbers, scenario: "third1", kind: TwoHolders, skip: TwoGrants},
		{fault: breakage.ReleaseEndsAny, scenario: "again3", kind: TwoHolders},
		{fault: breakage.SilenceFrees, scenario: "sleep2", kind: TwoGrants},
		{fault: breakage.SilenceFrees, scenario: "quarantine3", kind: TwoHolders, skip: TwoGrants},
		{fault: breakage.NoSessionNumbers, scenario: "cut3", kind: TwoHolders},
		{fault: breakage.NoSessionNumbers, scenario: "quarantine3", kind: TwoHolders},
		{fault: breakage.NoQuarantine, scenario: "restart2", kind: TwoHolders},
		{fault: breakage.NoQuarantine, scenario: "quarantine3", kind: TwoHolders, skip: TwoGrants},
		{fault: breakage.ShortQuarantine, scenario: "quarantine3", kind: TwoHolders},
		{fault: breakage.QueuedIsAnswer, scenario: "faults2", kind: Stuck},
		{fault: breakage.OneRequest, scenario: "wakes2", kind: Stuck},
		{fault: breakage.FreshFromReceipt, scenario: "sleep2", kind: TwoGrants},
		{fault: breakage.FreshFromReceipt, scenario: "quarantine3", kind: TwoHolders, skip: TwoGrants},
		{fault: breakage.FormerRenewed, scenario: "former1", kind: TwoHolders},
		{fault: breakage.YieldForgotten, scenario: "faults3", kind: TwoHolders},
		{fault: breakage.YieldOnlyNamed, scenario: "faults3", kind: TwoHolders},
		{fault: breakage.YieldNotRepeated, scenario: "faults3", kind: Stuck},
		{fault: breakage.InputBeforeTime, scenario: "late2", kind: Revived},
		{fault: breakage.LossForgiven, scenario: "late1", kind: Revived},
		{fault: breakage.TokenWithoutCommit, scenario: "tokens3", kind: Tokens},
		{fault: breakage.TokenByOne, scenario: "tokens3", kind: Tokens},
		{fault: breakage.FloorsNotRead, scenario: "tokens3", kind: Tokens},
		{fault: breakage.FloorsOfOneFewer, scenario: "tokens3", kind: Tokens},
	}
}

// TestFaultsAreFound fails when a check is off: each is the one that finds some fault.
func TestFaultsAreFound(t *testing.T) {
	for i, f := range findings() {
		if underRace && i > 4 {
			break
		}
		sc := scenario(t, f.scenario)
		sc.Fault, sc.Skip = breakage.Of(f.fault), f.skip
		start := time.Now()
		r := Search(sc, faultDepth, faultLimit)
		switch {
		case r.Violation == nil:
			t.Errorf("%v is not found in %s: %v", f.fault, sc.Name, r)
		case r.Violation.Kind != f.kind:
			t.Errorf("%v in %s: want %s, got %s: %s", f.fault, sc.Name, f.kind, r.Violation.Kind, r.Violation.Text)
		default:
			t.Logf("%-18v %-11s %-11s depth %2d, %6d states, %v", f.fault, sc.Name, f.kind, len(r.Path), r.States,
				time.Since(start).Round(time.Millisecond))
		}
		if r.Violation == nil {
			continue
		}
		// The trace shows it, and the command that it ends with would.
		if lines, v := Replay(sc, r.Path); v == nil || v.Kind != f.kind || len(lines) < len(r.Path) {
			t.Errorf("%v in %s: the path %v shows %v", f.fault, sc.Name, r.Path, v)
		}
		if p, err := ParsePath(r.Path.String()); err != nil || p.String() != r.Path.String() {
			t.Errorf("path %v is read as %v: %v", r.Path, p, err)
		}
	}
}

func TestPanicIsFound(t *testing.T) {
	w := begin(scenario(t, "order2"))
	w.call(0, func(*node.Node) { panic("of the test") })
	if w.violation == nil || w.violation.Kind != Panic {
		t.Errorf("want a panic, got %v", w.violation)
	}
}
