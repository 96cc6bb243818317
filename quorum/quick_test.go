package quorum

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// listable is the number of quorums up to which they are all listed and compared.
const listable = 3000

// Trees of any size and rotation against the second implementation. One run of
// rapid is 100 draws, unless -rapid.checks says otherwise; a failure prints the
// seed.
func TestQuickAgainstNaive(t *testing.T) {
	const runs = 20
	listed := 0
	for range runs {
		rapid.Check(t, func(t *rapid.T) {
			if againstNaive(t) {
				listed++
			}
		})
	}
	if listed < runs && !t.Failed() {
		t.Errorf("%d draws had few enough quorums to list; too few to have tried the cheapest", listed)
	}
}

// againstNaive draws and checks one tree, and reports whether its quorums were few
// enough to be listed, so that also the choice was checked.
func againstNaive(t *rapid.T) bool {
	n := rapid.IntRange(1, MaxMembers).Draw(t, "n")
	rotation := rapid.IntRange(0, n-1).Draw(t, "rotation")
	up := All(n)
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, n).Draw(t, "failed") {
		up = up.Without(i)
	}
	self := rapid.IntRange(-1, n-1).Draw(t, "self")
	cost := rapid.SliceOfN(rapid.Int64Range(0, 5), n, n).Draw(t, "cost") // few values: many ties
	tree, err := New(n, rotation)
	if err != nil {
		t.Fatalf("New(%d, %d): %v", n, rotation, err)
	}
	slow := newNaive(n, rotation)

	has := slow.contains(up)
	if got := tree.Contains(up); got != has {
		t.Fatalf("Contains(%v) = %v; want %v", up, got, has)
	}
	if tree.Contains(All(n).Minus(up)) == has {
		t.Fatalf("of %v and all others both or none include a quorum", up)
	}
	if got, want := tree.Bottleneck(cost), slowBottleneck(slow, cost); got != want {
		t.Fatalf("Bottleneck(%v) = %d; want %d", cost, got, want)
	}
	q, ok := tree.Select(up, self, cost)
	if ok != has || !q.Minus(up).Empty() || slow.contains(q) != has {
		t.Fatalf("Select = %v, %v; want a quorum of %v: %v", q, ok, up, has)
	}
	if reach, _ := slow.reach(up); ok && q.Has(self) != (up.Has(self) && reach.Has(self)) {
		t.Fatalf("Select = %v; through %d possible: %v", q, self, !q.Has(self))
	}
	if slow.count(up) > listable {
		return false
	}
	if want, _ := best(slow.quorums(up), self, cost); q != want {
		t.Fatalf("Select = %v; want %v", q, want)
	}
	return has
}

// slowBottleneck tries every value as the threshold.
func slowBottleneck(slow *naive, value []int64) int64 {
	highest := int64(math.MinInt64)
	for _, v := range value {
		var s Set
		for i, w := range value {
			if w >= v {
				s = s.With(i)
			}
		}
		if slow.contains(s) {
			highest = max(highest, v)
		}
	}
	return highest
}
