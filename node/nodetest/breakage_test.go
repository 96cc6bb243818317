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
