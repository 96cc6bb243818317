package quorum

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxMembers is the highest number of members that a [Tree] can have. A [Set]
// holds indexes below it.
const MaxMembers = 127

// Set is a set of members, by their indexes 0 to MaxMembers-1. It is a value: it
// is copied by assignment and compared by ==, and its methods return new sets. The
// zero Set is empty. Only String allocates, and All when its loop is not inlined.
type Set struct {
	lo, hi uint64 // bit i of lo is member i, bit i of hi is member 64+i
}

// NewSet returns the set of the given members; one that is named twice counts
// once. It panics on an index outside 0 to MaxMembers-1, as With does.
func NewSet(ids ...int) Set {
	var s Set
	for _, i := range ids {
		s = s.With(i)
	}
	return s
}

// All returns the set of the members 0 to n-1. It panics unless n is between 0
// and MaxMembers.
func All(n int) Set {
	if n < 0 || n > MaxMembers {
		panic(fmt.Sprintf("quorum: a set of %d members; want 0 to %d", n, MaxMembers))
	}
	// A shift by 64 leaves 0, which minus 1 is a full word.
	return Set{lo: 1<<min(n, 64) - 1, hi: 1<<max(n-64, 0) - 1}
}

// bit returns the set of member i alone. An index out of range gives no bit that a
// Set can have: shifts by more than 63 leave 0, a negative count turns into one of
// these, and bit 127 is never set.
func bit(i int) Set { return Set{lo: 1 << uint(i), hi: 1 << uint(i-64)} }

// Has reports whether member i is in s. An index out of range is in no set.
func (s Set) Has(i int) bool { return s.Intersects(bit(i)) }

// With returns s and member i. It panics on an index outside 0 to MaxMembers-1: to
// drop it in silence would hide that somebody mistook "no member" for an index.
func (s Set) With(i int) Set {
	if i < 0 || i >= MaxMembers {
		panicIndex(i)
	}
	return s.Union(bit(i))
}

// panicIndex stands apart so that With can be inlined.
func panicIndex(i int) {
	panic(fmt.Sprintf("quorum: member %d in a set; want 0 to %d", i, MaxMembers-1))
}

// Without returns s less member i. An index out of range takes nothing away.
func (s Set) Without(i int) Set { return s.Minus(bit(i)) }

// Len returns the number of members in s.
func (s Set) Len() int { return bits.OnesCount64(s.lo) + bits.OnesCount64(s.hi) }

// Empty reports whether s has no members.
func (s Set) Empty() bool { return s == Set{} }

// Union returns the members that are in s or in o.
func (s Set) Union(o Set) Set { return Set{lo: s.lo | o.lo, hi: s.hi | o.hi} }

// Intersect returns the members that are in s and in o.
func (s Set) Intersect(o Set) Set { return Set{lo: s.lo & o.lo, hi: s.hi & o.hi} }

// Minus returns the members that are in s and not in o.
func (s Set) Minus(o Set) Set { return Set{lo: s.lo &^ o.lo, hi: s.hi &^ o.hi} }

// Intersects reports whether s and o share a member.
func (s Set) Intersects(o Set) bool { return s.lo&o.lo|s.hi&o.hi != 0 }

// All returns the members of s in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w := s.lo; w != 0; w &= w - 1 {
			if !yield(bits.TrailingZeros64(w)) {
				return
			}
		}
		for w := s.hi; w != 0; w &= w - 1 {
			if !yield(64 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// String lists the members in ascending order, like "{1,3}".
func (s Set) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range s.All() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
	}
	b.WriteByte('}')
	return b.String()
}

// before reports whether s comes before o when they are equally good otherwise:
// the one with the lowest member that the other lacks comes first. The order of
// two sets stays the same when both are joined with a third that meets neither,
// which is what lets the cheapest quorum be put together from the cheapest of its
// parts.
func (s Set) before(o Set) bool {
	if d := s.lo ^ o.lo; d != 0 {
		return s.lo&(d&-d) != 0
	}
	d := s.hi ^ o.hi
	return s.hi&(d&-d) != 0
}
