package nodetest

import (
	"flag"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node/internal/breakage"
)

var (
	faultFlag = flag.String("fault", "", "the fault of the core with which TestSeed and TestSurvey run")
	aimFlag   = flag.String("aim", "", "the aim of TestSurvey and TestSeed: tokens, restarts, votes, pauses, delays")
	survey    = flag.Uint64("survey", 0, "how many seeds TestSurvey runs with each fault")
)

// aims are the changes to what a seed decides, by name.
func aims() map[string]func(*Options) {
	return map[string]func(*Options){
		"": func(*Options) {}, "tokens": AimAtTokens, "restarts": AimAtRestarts, "votes": AimAtVotes,
		"pauses": AimAtPauses, "delays": AimAtDelays,
	}
}

// finding says with which aim a fault of the core is found, and within how many
// seeds: about five times as many as it takes on average.
type finding struct {
	fault breakage.Fault
	aim   string
	seeds uint64
}

func findings() []finding {
	return []finding{
		{breakage.ManyGrants, "restarts", 5},
		{breakage.NoInquire, "pauses", 10},
		{breakage.NoYieldNumbers, "pauses", 300},
		{breakage.NoVoteSilence, "votes", 500},
		{breakage.LongVotes, "votes", 60},
		{breakage.QuarantineVotes, "votes", 500},
		{breakage.NoVotes, "votes", 10},
		{breakage.ReleaseEndsAny, "delays", 20},
		{breakage.SilenceFrees, "votes", 10},
		{breakage.ShortLease, "votes", 20},
		{breakage.NoSessionNumbers, "tokens", 20},
		{breakage.FormerIncarnation, "delays", 200},
		{breakage.NoQuarantine, "restarts", 10},
		{breakage.ShortQuarantine, "restarts", 200},
		{breakage.OneRequest, "restarts", 10},
		{breakage.QueuedIsAnswer, "delays", 50},
		{breakage.FreshFromReceipt, "tokens", 10},
		{breakage.FormerRenewed, "restarts", 100},
		{breakage.YieldForgotten, "tokens", 40},
		{breakage.YieldOnlyNamed, "tokens", 80},
		{breakage.MajorityOfGrants, "tokens", 30},
		{breakage.InputBeforeTime, "pauses", 200},
		{breakage.LossForgiven, "delays", 50},
		{breakage.NoSilence, "", 300},
		{breakage.NoWithdrawal, "", 100},
		{breakage.TokenWithoutCommit, "tokens", 5},
		{breakage.TokenByOne, "tokens", 5},
		{breakage.TokenByGranters, "tokens", 200},
		{breakage.FloorsNotRead, "tokens", 200},
		{breakage.FloorsOfOneFewer, "tokens", 400},
	}
}

// neverFound lists the faults that no seed has shown so far, and why.
func neverFound() map[breakage.Fault]string {
	return map[breakage.Fault]string{
		breakage.QuarantineHolding: "needs a holder that changes its quorum to a restarted member while another requester " +
			"counts what the former incarnation gave, and the rest of its quorum free within T",
		breakage.YieldNotRepeated: "Inquire is repeated, and answered by Yield, while the one who was yielded for waits; " +
			"only when that one gives up is a lost Yield missed",
		breakage.NoReleaseOfFormer:  "Validate finds what was not released as soon as somebody waits for it",
		breakage.FloorsInQuarantine: "a token must be fixed with an answer of the former incarnation after its successor has read",
	}
}

// find returns the first seed up to limit that shows the fault, and what it showed.
// The sound core must pass the same seed, or it is the checkers that are wrong.
func find(t *testing.T, f finding) (uint64, *Violation) {
	t.Helper()
	for seed := uint64(1); seed <= f.seeds; seed++ {
		o := Draw(seed)
		aims()[f.aim](&o)
		o.Broken = breakage.Of(f.fault)
		v := Run(o, 0).Violation
		if v == nil {
			continue
		}
		o.Broken = breakage.Set{}
		if sound := Run(o, 0).Violation; sound != nil {
			t.Errorf("seed %d fails with the sound core: %v", seed, sound)
		}
		return seed, v
	}
	return 0, nil
}

// TestBreakages shows that the checkers find each fault of the core.
func TestBreakages(t *testing.T) {
	for _, f := range findings() {
		if underRace && f.seeds > 20 {
			continue
		}
		t.Run(f.fault.String(), func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			seed, v := find(t, f)
			if v == nil {
				t.Fatalf("not found within %d seeds of aim %q", f.seeds, f.aim)
			}
			t.Logf("seed %d of %d in %.1fs: %v", seed, f.seeds, time.Since(start).Seconds(), v)
		})
	}
}

// TestEveryBreakageIsListed keeps a new fault from being forgotten.
func TestEveryBreakageIsListed(t *testing.T) {
	listed := neverFound()
	for _, f := range findings() {
		listed[f.fault] = f.aim
	}
	for _, f := range breakage.All() {
		if _, ok := listed[f]; !ok {
			t.Errorf("%v: want it in findings or in neverFound", f)
		}
		if back, ok := breakage.Named(f.String()); !ok || back != f {
			t.Errorf("%v: its name leads to %v", f, back)
		}
	}
}

// TestSurvey counts how many seeds it takes to see each fault of the core.
func TestSurvey(t *testing.T) {
	if *survey == 0 {
		t.Skip("no -survey")
	}
	for _, f := range breakage.All() {
		if *faultFlag != "" && *faultFlag != f.String() {
			continue
		}
		start, found := time.Now(), map[string]int{}
		first := uint64(0)
		for seed := *firstFlag + 1; seed <= *firstFlag+*survey; seed++ {
			o := Draw(seed)
			aims()[*aimFlag](&o)
			o.Broken = breakage.Of(f)
			if v := Run(o, 0).Violation; v != nil {
				found[v.Kind]++
				if first == 0 {
					first = seed
				}
			}
		}
		t.Logf("%-20v %v, first %d, in %.1fs", f, found, first, time.Since(start).Seconds())
	}
}
