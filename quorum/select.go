package quorum

import "math"

// Contains reports whether s includes a quorum of the tree. Indexes in s that are
// no members do not matter.
func (t *Tree) Contains(s Set) bool { return t.contains(t.root, s) }

func (t *Tree) contains(v int, s Set) bool {
	n := t.nodes[v]
	switch {
	case n.right == none:
		return s.Has(v)
	case n.left == none:
		// With v or without it, a quorum of the only child is needed, and enough.
		return t.contains(n.right, s)
	case s.Has(v):
		return t.contains(n.left, s) || t.contains(n.right, s)
	}
	return t.contains(n.left, s) && t.contains(n.right, s)
}

// Bottleneck returns the largest v such that the members with value[i] >= v
// include a quorum. With times as values, until which each member's consent
// counts, it is the time until which a quorum's does. A member that is not there
// has the value math.MinInt64, and so has the result when no quorum is there.
// There must be a value for each member, or it panics. It does not allocate.
func (t *Tree) Bottleneck(value []int64) int64 { return t.bottleneck(t.root, value) }

func (t *Tree) bottleneck(v int, value []int64) int64 {
	n := t.nodes[v]
	if n.right == none {
		return value[v]
	}
	r := t.bottleneck(n.right, value)
	if n.left == none {
		return r
	}
	l := t.bottleneck(n.left, value)
	return max(min(value[v], max(l, r)), min(l, r))
}

// Select returns the quorum to ask, of members in up only, and false when up
// includes none.
//
// A member that is up is used and not gone round, whatever it costs: going round it
// takes a quorum of each of its children in place of one. So with everybody up the
// result is one path from the root to a leaf. (An inner node with a single child is
// asked too when it is up, though the child's quorum alone would do.) When self
// is a member that is up, the quorum goes through self if there is such a one.
// Otherwise, and among those through self, it is the cheapest. A client, which is
// no member, says -1.
//
// Of two quorums that one is cheaper whose dearest member is cheaper (all are asked
// at the same time, so a lock takes one round trip to the farthest); after that the one
// with the lower sum, and after that the one with the lowest index that the other
// lacks. cost has one entry for each member, in any one unit; a nil cost counts
// everybody as 1. Self always counts 0, and so does a negative cost. Sums are exact
// for costs up to math.MaxInt64/MaxMembers, 2.3 years in nanoseconds.
//
// It does not allocate. It panics when cost is neither nil nor long enough.
func (t *Tree) Select(up Set, self int, cost []int64) (Set, bool) {
	s := search{tree: t, up: up, self: self, cost: cost}
	if t.has(self) && up.Has(self) {
		for v := self; v != none; v = t.nodes[v].parent {
			s.path = s.path.With(v)
		}
	}
	s.limit = s.farthest(t.root)
	if s.limit == impossible && !s.path.Empty() {
		s.path = Set{}
		s.limit = s.farthest(t.root)
	}
	if s.limit == impossible {
		return Set{}, false
	}
	best := s.cheapest(t.root)
	return best.set, best.ok
}

// impossible is the cost of a quorum that cannot be had, above that of all that can.
const impossible = math.MaxInt64

// search is what stays the same during one Select. It goes over the tree twice,
// since "dearest member first, then the sum" cannot be minimized in one pass from
// the leaves up: below a dear member the part with the lowest sum is wanted,
// however its own dearest member compares. So farthest finds the lowest limit
// that will do, and cheapest the lowest sum within this limit.
type search struct {
	tree  *Tree
	up    Set
	path  Set // self and all above it when the quorum must go through self
	self  int
	cost  []int64
	limit int64
}

// price returns the cost of asking v, below impossible.
func (s *search) price(v int) int64 {
	switch {
	case v == s.self:
		return 0
	case s.cost == nil:
		return 1
	}
	return min(max(s.cost[v], 0), impossible-1)
}

// ways returns the children of v from which one quorum is enough when v is up, none
// for each that is not there or does not lead to self.
func (s *search) ways(v int) (left, right int) {
	n := s.tree.nodes[v]
	switch {
	case n.left != none && s.path.Has(n.left):
		return n.left, none
	case n.right != none && s.path.Has(n.right):
		return none, n.right
	}
	return n.left, n.right
}

// farthest returns the lowest possible cost of the dearest member of a quorum of v.
func (s *search) farthest(v int) int64 {
	if v == none {
		return impossible
	}
	n := s.tree.nodes[v]
	up := s.up.Has(v)
	switch {
	case up && n.right == none:
		return s.price(v)
	case up:
		l, r := s.ways(v)
		return max(s.price(v), min(s.farthest(l), s.farthest(r)))
	case n.left == none:
		return s.farthest(n.right)
	}
	return max(s.farthest(n.left), s.farthest(n.right))
}

// choice is a quorum of a subtree and the sum of its costs. Not ok: there is none.
type choice struct {
	set Set
	sum int64
	ok  bool
}

// cheapest returns the quorum of v with the lowest sum of those that have no member
// dearer than the limit.
func (s *search) cheapest(v int) choice {
	if v == none {
		return choice{}
	}
	n := s.tree.nodes[v]
	if s.up.Has(v) {
		p := s.price(v)
		own := choice{set: bit(v), sum: p, ok: p <= s.limit}
		if n.right == none || !own.ok {
			return own
		}
		l, r := s.ways(v)
		return own.and(s.cheapest(l).or(s.cheapest(r)))
	}
	if n.left == none {
		return s.cheapest(n.right)
	}
	return s.cheapest(n.left).and(s.cheapest(n.right))
}

// and joins two choices that share no member.
func (c choice) and(o choice) choice {
	if !c.ok || !o.ok {
		return choice{}
	}
	sum := c.sum + o.sum
	if sum < 0 { // past the highest int64; equal sums are told apart by index
		sum = math.MaxInt64
	}
	return choice{set: c.set.Union(o.set), sum: sum, ok: true}
}

// or returns the better of two choices.
func (c choice) or(o choice) choice {
	switch {
	case !o.ok:
		return c
	case !c.ok:
		return o
	case c.sum != o.sum:
		if c.sum < o.sum {
			return c
		}
		return o
	case c.set.before(o.set):
		return c
	}
	return o
}
