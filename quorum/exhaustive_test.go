package quorum

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
)

// exhaustiveMembers is the size up to which every set of failed members is tried.
const exhaustiveMembers = 15

// holds tabulates Contains for all sets of n members.
func holds(tree *Tree) []bool {
	table := make([]bool, 1<<tree.Size())
	for s := range table {
		table[s] = tree.Contains(Set{lo: uint64(s)})
	}
	return table
}

// minimal lists the quorums that no member can be taken from.
func minimal(table []bool) []Set {
	var list []Set
	for s, has := range table {
		least := has
		for w := uint(s); w != 0; w &= w - 1 {
			least = least && !table[s&^(1<<bits.TrailingZeros(w))]
		}
		if least {
			list = append(list, Set{lo: uint64(s)})
		}
	}
	return list
}

// Any two quorums meet. For monotone sets of sets this says that no set and its
// complement both include one; that always one of them does is what makes it
// impossible to allow any further set. Both hold for every size.
func TestExhaustiveQuorumsMeet(t *testing.T) {
	for n := 1; n <= exhaustiveMembers; n++ {
		table := holds(mustNew(t, n, 0))
		full := len(table) - 1
		for s, has := range table {
			if other := table[full&^s]; has == other {
				t.Fatalf("n=%d: of %v and all others %v and %v include a quorum; want exactly one",
					n, Set{lo: uint64(s)}, has, other)
			}
			for i := range n {
				if has && !table[s|1<<i] {
					t.Fatalf("n=%d: %v includes a quorum, with %d added it does not", n, Set{lo: uint64(s)}, i)
				}
			}
		}
		list := minimal(table)
		for i, a := range list {
			for _, b := range list[:i] {
				if !a.Intersects(b) {
					t.Fatalf("n=%d: the quorums %v and %v do not meet", n, a, b)
				}
			}
		}
	}
}

// For every set of members that are up and every requester: Select finds a quorum
// exactly when there is one, of members that are up, and through the requester
// exactly when there is one through it.
func TestExhaustiveSelect(t *testing.T) {
	for n := 1; n <= exhaustiveMembers; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			tree, slow := mustNew(t, n, 0), newNaive(n, 0)
			table := holds(tree)
			value := make([]int64, n)
			for s, has := range table {
				up := Set{lo: uint64(s)}
				for i := range value {
					value[i] = int64(s >> i & 1)
				}
				if b := tree.Bottleneck(value) >= 1; b != has || slow.contains(up) != has {
					t.Fatalf("%v: Contains %v, Bottleneck %v, by definition %v", up, has, b, slow.contains(up))
				}
				reach, _ := slow.reach(up)
				for self := -1; self < n; self++ {
					q, ok := tree.Select(up, self, nil)
					switch {
					case ok != has:
						t.Fatalf("%d with %v up: found %v; want %v", self, up, ok, has)
					case !ok && q != Set{}:
						t.Fatalf("%d with %v up: none and yet %v", self, up, q)
					case ok && (!q.Minus(up).Empty() || !table[q.lo]):
						t.Fatalf("%d with %v up asks %v; want a quorum of these", self, up, q)
					case ok && q.Has(self) != (reach.Has(self) && up.Has(self)):
						t.Fatalf("%d with %v up asks %v; through itself possible: %v", self, up, q, !q.Has(self))
					}
				}
			}
		})
	}
}

// The share of all sets of so many failed members that leave a quorum. With 11 of
// 15 failed, four are left: the 8 paths, and 4 more where both leaves below a
// node stand in for it and one leaf.
func TestFailuresSurvived(t *testing.T) {
	for _, c := range []struct {
		n, failed int
		want      float64 // percent
	}{
		{7, 1, 100},
		{7, 2, 100},
		{7, 3, 100 * 29.0 / 35},
		{7, 4, 100 * 6.0 / 35},
		{7, 5, 0},
		{15, 3, 100},
		{15, 4, 99.1},
		{15, 5, 95.3},
		{15, 6, 85.3},
		{15, 7, 64.9},
		{15, 11, 100 * 12.0 / 1365},
		{15, 12, 0},
		{3, 1, 100},
		{3, 2, 0},
		// Sizes that are no 2^k-1 promise less for what they cost.
		{4, 1, 100},
		{5, 1, 100},
		{6, 1, 100},
		{8, 2, 100},
		{9, 2, 100},
		{10, 2, 100},
		{11, 2, 100},
		{12, 2, 100},
		{13, 2, 100},
		{14, 2, 100},
	} {
		all, survived := 0, 0
		for s, has := range holds(mustNew(t, c.n, 0)) {
			if bits.OnesCount(uint(s)) == c.n-c.failed {
				all++
				if has {
					survived++
				}
			}
		}
		got := 100 * float64(survived) / float64(all)
		if math.Abs(got-c.want) > 0.05 {
			t.Errorf("n=%d with %d failed: %d sets of %d survive, %.2f %%; want %.2f %%", c.n, c.failed, survived, all, got, c.want)
		}
		if c.want == 100 && survived != all {
			t.Errorf("n=%d with %d failed: %d sets of %d survive; want all", c.n, c.failed, survived, all)
		}
	}
}

func TestMinimalQuorums(t *testing.T) {
	for _, c := range []struct{ n, count, least, most int }{
		{1, 1, 1, 1},
		{3, 3, 2, 2},
		{7, 15, 3, 4},
		{15, 255, 4, 8},
	} {
		list := minimal(holds(mustNew(t, c.n, 0)))
		least, most := c.n, 0
		for _, q := range list {
			least, most = min(least, q.Len()), max(most, q.Len())
		}
		if len(list) != c.count || least != c.least || most != c.most {
			t.Errorf("n=%d: %d minimal quorums of %d to %d members; want %d of %d to %d",
				c.n, len(list), least, most, c.count, c.least, c.most)
		}
	}
}

// Perfect trees from 1 to 127 members: a path while all are up, the leaves alone
// when all others failed.
func TestPerfectTreeSizes(t *testing.T) {
	for k := 1; k <= 7; k++ {
		n := 1<<k - 1
		tree := mustNew(t, n, 0)
		if q, ok := tree.Select(All(n), -1, nil); !ok || q.Len() != k {
			t.Errorf("n=%d, all up: asks %v, %v; want %d members", n, q, ok, k)
		}
		var leaves Set
		for i := range n {
			if l, r := tree.Children(i); l == -1 && r == -1 {
				leaves = leaves.With(i)
			}
		}
		if q, ok := tree.Select(leaves, -1, nil); !ok || q != leaves || q.Len() != (n+1)/2 {
			t.Errorf("n=%d, leaves up: asks %v, %v; want all %d of them", n, q, ok, (n+1)/2)
		}
	}
}
