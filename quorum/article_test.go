package quorum

import (
	"slices"
	"testing"
)

// The article numbers its fifteen members from 1. These two translate.

func article(names ...int) Set {
	var s Set
	for _, i := range names {
		s = s.With(i - 1)
	}
	return s
}

func spoken(s Set) []int {
	names := []int{}
	for i := range s.All() {
		names = append(names, i+1)
	}
	return names
}

// ask is Select for the member self of 1..15, 0 for a client; cheap costs 1, the
// others 10.
func ask(t *testing.T, tree *Tree, failed Set, self int, cheap Set) Set {
	t.Helper()
	cost := make([]int64, tree.Size())
	for i := range cost {
		cost[i] = 10
		if cheap.Has(i) {
			cost[i] = 1
		}
	}
	q, ok := tree.Select(All(tree.Size()).Minus(failed), self-1, cost)
	if !ok {
		t.Fatalf("%d with %v failed: no quorum; want one", self, spoken(failed))
	}
	return q
}

func TestArticleThreeAsksEightFourTwo(t *testing.T) {
	tree := mustNew(t, 15, 0)
	q, ok := tree.Select(All(15), 3-1, nil)
	if want := article(8, 4, 2, 3); !ok || q != want {
		t.Errorf("3 asks %v, %v; want %v, itself included", spoken(q), ok, spoken(want))
	}
	// Also when everybody else is nearer.
	if got, want := ask(t, tree, Set{}, 3, All(15).Minus(article(8, 4, 2))), article(8, 4, 2, 3); got != want {
		t.Errorf("3, far from the path, asks %v; want %v", spoken(got), spoken(want))
	}
}

func TestArticleTwelveFailedLeavesFourSets(t *testing.T) {
	tree := mustNew(t, 15, 0)
	left := article(4, 2, 6, 1, 3, 5, 7)
	for _, a := range []int{13, 15} {
		for _, b := range []int{9, 11} {
			want := article(8, 14, a, 10, b)
			for _, self := range []int{0, 8, 14, 10, a, b} {
				// Who sits on that side asks there also when the other half is near.
				cheap := want
				if self > 8 {
					cheap = article(a, b).Union(left)
				}
				if got := ask(t, tree, article(12), self, cheap); got != want {
					t.Errorf("%d with 12 failed and %d, %d near asks %v; want %v", self, a, b, spoken(got), spoken(want))
				}
			}
		}
	}
	// These four are all there are below 8, 10 and 14, whichever leaves are up.
	var sets []Set
	for leaves := range uint64(1 << 15) {
		up := Set{lo: leaves}.Intersect(article(9, 11, 13, 15)).Union(article(8, 10, 14))
		if q, ok := tree.Select(up, -1, nil); ok && !slices.Contains(sets, q) {
			sets = append(sets, q)
		}
	}
	if len(sets) != 4 {
		t.Errorf("with 12 and the left half failed there are %d ways: %v; want 4", len(sets), sets)
	}
}

func TestArticleInnerNodeAsksOnePath(t *testing.T) {
	tree := mustNew(t, 15, 0)
	for self := 1; self <= 15; self++ {
		q, ok := tree.Select(All(15), self-1, nil)
		if !ok || q.Len() != 4 {
			t.Errorf("%d asks %v, %v; want a path of 4", self, spoken(q), ok)
		}
		for v := self - 1; v != -1; v = tree.Parent(v) {
			if !q.Has(v) {
				t.Errorf("%d asks %v; want its whole path, %d is missing", self, spoken(q), v+1)
			}
		}
		if leaves := q.Intersect(article(1, 3, 5, 7, 9, 11, 13, 15)).Len(); leaves != 1 {
			t.Errorf("%d asks %v, with %d leaves; want 1", self, spoken(q), leaves)
		}
	}
	if got, want := ask(t, tree, Set{}, 4, article(6, 7)), article(8, 4, 6, 7); got != want {
		t.Errorf("4, near 6 and 7, asks %v; want %v", spoken(got), spoken(want))
	}
}

func TestArticleSubstitution(t *testing.T) {
	tree := mustNew(t, 15, 0)
	for _, c := range []struct {
		self   int
		failed Set
		want   Set
	}{
		{3, article(2), article(8, 4, 3, 1)},                                     // both leaves in place of 2
		{3, article(4), article(8, 2, 3, 6, 5)},                                  // a path on each side of 4
		{3, article(8), article(4, 2, 3, 12, 10, 9)},                             // a path on each side of the root
		{3, article(8, 4), article(2, 3, 6, 5, 12, 10, 9)},                       // and again below it
		{3, article(2, 1), article(8, 4, 6, 5)},                                  // not through 3: the cheapest
		{3, article(2, 1, 6, 5), article(8, 12, 10, 9)},                          // nothing left below 4
		{0, article(4), article(8, 12, 10, 9)},                                   // the fewest: 4, not 5 around it
		{3, article(3), article(8, 4, 2, 1)},                                     // its own member does not answer
		{8, article(8), article(4, 2, 1, 12, 10, 9)},                             // nor does the root's
		{0, article(8, 4, 12, 2, 6, 10, 14), article(1, 3, 5, 7, 9, 11, 13, 15)}, // leaves alone
	} {
		q, ok := tree.Select(All(15).Minus(c.failed), c.self-1, nil)
		if !ok || q != c.want {
			t.Errorf("%d with %v failed asks %v, %v; want %v", c.self, spoken(c.failed), spoken(q), ok, spoken(c.want))
		}
	}
	if q, ok := tree.Select(All(15).Minus(article(8, 12, 14, 15)), 3-1, nil); ok {
		t.Errorf("with the path 8, 12, 14, 15 failed 3 asks %v; want none, it blocks", spoken(q))
	}
}

// Why a majority is no stand-in for a path.
func TestArticleMajorityMayMissAPath(t *testing.T) {
	tree := mustNew(t, 7, 0)
	path, majority := article(4, 2, 1), article(3, 5, 6, 7)
	if path.Intersects(majority) || majority.Len() != Majority(7) {
		t.Fatalf("%v and %v are no example", spoken(path), spoken(majority))
	}
	if !tree.Contains(path) || tree.Contains(majority) {
		t.Errorf("quorum: %v %v, %v %v; want true, false", spoken(path), tree.Contains(path), spoken(majority), tree.Contains(majority))
	}
}
