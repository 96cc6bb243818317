package quorum

import (
	"math"
	"slices"
	"testing"
)

// naive is a second implementation, written from the definition and without a
// thought for speed: nodes with lists of children, and whole lists of quorums.
type naive struct {
	member int
	kids   []*naive
}

// newNaive lays out the members 0 to n-1.
func newNaive(n, rotation int) *naive {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return naiveOf(append(list[rotation:], list[:rotation]...))
}

func naiveOf(list []int) *naive {
	n := len(list)
	left := int(math.Floor(float64(n-1) / 2))
	if n%2 == 1 {
		for left%2 == 0 && left > 0 {
			left++
		}
	}
	v := &naive{member: list[left]}
	for _, part := range [][]int{list[:left], list[left+1:]} {
		if len(part) > 0 {
			v.kids = append(v.kids, naiveOf(part))
		}
	}
	return v
}

// contains follows the definition with s as those who are up.
func (v *naive) contains(s Set) bool {
	if len(v.kids) == 0 {
		return s.Has(v.member)
	}
	one, all := false, true
	for _, k := range v.kids {
		has := k.contains(s)
		one, all = one || has, all && has
	}
	return s.Has(v.member) && one || all
}

// reach returns the union of all quorums that can be had with up, and whether
// there are any. So a member is in the union exactly when a quorum goes through it.
func (v *naive) reach(up Set) (Set, bool) {
	if len(v.kids) == 0 {
		return NewSet(v.member), up.Has(v.member)
	}
	union, found, all := Set{}, false, true
	for _, k := range v.kids {
		s, ok := k.reach(up)
		if ok {
			union = union.Union(s)
		}
		found, all = found || ok, all && ok
	}
	if up.Has(v.member) {
		return union.With(v.member), found
	}
	return union, all
}

// count returns how many quorums can be had with up.
func (v *naive) count(up Set) float64 {
	switch {
	case len(v.kids) == 0 && up.Has(v.member):
		return 1
	case len(v.kids) == 0:
		return 0
	}
	sum, product := 0.0, 1.0
	for _, k := range v.kids {
		c := k.count(up)
		sum, product = sum+c, product*c
	}
	if up.Has(v.member) {
		return sum
	}
	return product
}

// quorums lists the quorums that can be had with up.
func (v *naive) quorums(up Set) []Set {
	if len(v.kids) == 0 {
		if up.Has(v.member) {
			return []Set{NewSet(v.member)}
		}
		return nil
	}
	if up.Has(v.member) {
		var list []Set
		for _, k := range v.kids {
			for _, q := range k.quorums(up) {
				list = append(list, q.With(v.member))
			}
		}
		return list
	}
	list := []Set{{}}
	for _, k := range v.kids {
		var joined []Set
		for _, q := range k.quorums(up) {
			for _, p := range list {
				joined = append(joined, p.Union(q))
			}
		}
		list = joined
	}
	return list
}

// best picks from list as Select should.
func best(list []Set, self int, cost []int64) (Set, bool) {
	through := slices.DeleteFunc(slices.Clone(list), func(q Set) bool { return !q.Has(self) })
	if len(through) > 0 {
		list = through
	}
	if len(list) == 0 {
		return Set{}, false
	}
	return slices.MinFunc(list, func(a, b Set) int {
		dearA, sumA := naiveCost(a, self, cost)
		dearB, sumB := naiveCost(b, self, cost)
		switch {
		case dearA != dearB:
			return int(dearA - dearB)
		case sumA != sumB:
			return int(sumA - sumB)
		}
		for i := range MaxMembers {
			if a.Has(i) != b.Has(i) {
				if a.Has(i) {
					return -1
				}
				return 1
			}
		}
		return 0
	}), true
}

func naiveCost(q Set, self int, cost []int64) (dearest, sum int64) {
	for i := range q.All() {
		if i != self {
			dearest, sum = max(dearest, cost[i]), sum+cost[i]
		}
	}
	return dearest, sum
}

func mustNew(t testing.TB, n, rotation int) *Tree {
	t.Helper()
	tree, err := New(n, rotation)
	if err != nil {
		t.Fatalf("New(%d, %d): %v; want a tree", n, rotation, err)
	}
	return tree
}
