package nodetest

import (
	"testing"

	"github.com/treequorum/dmutex/node"
)

func newExclusion() *exclusion {
	return &exclusion{claims: make(map[string][]*claim), grace: 10}
}

// claimOf is a claim of who until its own clock shows deadline.
func claimOf(who string, c *clock, deadline node.Instant) *claim {
	return &claim{lock: "L", who: who, clock: c, deadline: deadline, late: func() bool { return false }}
}

func wantKind(t *testing.T, v *Violation, kind string) {
	t.Helper()
	switch {
	case v == nil && kind != "":
		t.Errorf("want a violation of %s, got none", kind)
	case v != nil && v.Kind != kind:
		t.Errorf("want %q, got %v", kind, v)
	}
}

// Two claims at one true instant are a violation, whatever the clocks show.
func TestExclusionSeesTwoHolders(t *testing.T) {
	slow := &clock{local: 1_000_000, ppm: -200_000}
	fast := &clock{local: 5, ppm: 200_000}
	for _, tt := range []struct {
		name string
		at   moment
		kind string
	}{
		{"before the deadline on the slow clock", 1248, "exclusion"},
		{"after it", 1250, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newExclusion()
			wantKind(t, x.begin(0, claimOf("a", slow, 1_001_000)), "")
			wantKind(t, x.begin(tt.at, claimOf("b", fast, 1_000_000)), tt.kind)
		})
	}
}

func TestExclusionForgetsWhatEnded(t *testing.T) {
	x, c := newExclusion(), &clock{}
	a := claimOf("a", c, 1000)
	wantKind(t, x.begin(0, a), "")
	x.end(a)
	wantKind(t, x.begin(1, claimOf("b", c, 1000)), "")
}

// A claim that is over when it begins was never one.
func TestExclusionSeesAClaimWithoutTime(t *testing.T) {
	wantKind(t, newExclusion().begin(10, claimOf("a", &clock{}, 10)), "exclusion")
}

func TestExclusionSeesADeadlineComeBack(t *testing.T) {
	x, c := newExclusion(), &clock{}
	a := claimOf("a", c, 1000)
	wantKind(t, x.begin(0, a), "")
	wantKind(t, x.renewed(999, a, 2000), "")
	wantKind(t, x.renewed(2000, a, 3000), "revived")
	b := claimOf("b", c, 5000)
	wantKind(t, x.begin(3000, b), "")
	wantKind(t, x.renewed(3001, a, 4000), "exclusion")
}

// Who runs is told of its loss before another has the lock; who is late need not be.
func TestExclusionSeesALossThatIsNotTold(t *testing.T) {
	x, c := newExclusion(), &clock{}
	wantKind(t, x.begin(0, claimOf("a", c, 1000)), "")
	wantKind(t, x.judge(1010, claimOf("b", c, 5000)), "")
	wantKind(t, x.judge(1011, claimOf("b", c, 5000)), "told")
	x.claims["L"][0].late = func() bool { return true }
	wantKind(t, x.judge(1011, claimOf("b", c, 5000)), "")
}
