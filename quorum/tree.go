package quorum

import (
	"errors"
	"fmt"
)

var (
	// ErrMembers says that a tree was asked for with too few or too many members.
	ErrMembers = errors.New("quorum: number of members out of range")
	// ErrRotation says that a rotation is no index into the list of members.
	ErrRotation = errors.New("quorum: rotation out of range")
)

// none stands for a node that is not there: a child of a leaf, the root's parent.
const none = -1

// Tree is the layout of one member list under one rotation. It does not change
// once it is made. Make one with [New]; the zero Tree is of no use.
type Tree struct {
	root  int
	nodes []node // by member
}

// node is one member's place in the tree. An only child is a right one.
type node struct {
	left, right, parent int
}

// New lays out the members 0 to n-1, whose order is the byte order of their names.
// The list is rotated first: the place p of the tree, counted in order, goes to
// member (p+rotation) mod n. The error is an ErrMembers unless 1 <= n <=
// MaxMembers, and an ErrRotation unless 0 <= rotation < n.
func New(n, rotation int) (*Tree, error) {
	if n < 1 || n > MaxMembers {
		return nil, fmt.Errorf("%w: %d; list 1 to %d members", ErrMembers, n, MaxMembers)
	}
	if rotation < 0 || rotation >= n {
		return nil, fmt.Errorf("%w: %d of %d members; use 0 to %d, as Rotation gives", ErrRotation, rotation, n, n-1)
	}
	t := &Tree{nodes: make([]node, n)}
	t.root = t.layOut(0, n, rotation, none)
	return t, nil
}

// layOut builds the subtree of the size places from first on and returns the
// member at its root.
func (t *Tree) layOut(first, size, rotation, parent int) int {
	if size == 0 {
		return none
	}
	left := leftSize(size)
	v := (first + left + rotation) % len(t.nodes)
	t.nodes[v] = node{
		left:   t.layOut(first, left, rotation, v),
		right:  t.layOut(first+left+1, size-left-1, rotation, v),
		parent: parent,
	}
	return v
}

// leftSize says how many of n nodes go to the left of their root. With n odd both
// sides get an odd number, so that no node ever has a single child; with n even
// one side is even, and so on down to the one node that has.
func leftSize(n int) int {
	half := (n - 1) / 2
	if n%2 == 1 && n > 1 {
		return half | 1
	}
	return half
}

// Size returns the number of members.
func (t *Tree) Size() int { return len(t.nodes) }

// Root returns the member at the root.
func (t *Tree) Root() int { return t.root }

// Children returns the members below member i, -1 for each that is not there. An
// only child is a right one. An i that is no member has no children.
func (t *Tree) Children(i int) (left, right int) {
	if !t.has(i) {
		return none, none
	}
	return t.nodes[i].left, t.nodes[i].right
}

// Parent returns the member above member i, -1 for the root and for an i that is
// no member.
func (t *Tree) Parent(i int) int {
	if !t.has(i) {
		return none
	}
	return t.nodes[i].parent
}

// Depth returns the number of members above member i: 0 for the root, -1 for an i
// that is no member.
func (t *Tree) Depth(i int) int {
	depth := none
	for ; t.has(i); i = t.nodes[i].parent {
		depth++
	}
	return depth
}

func (t *Tree) has(i int) bool { return i >= 0 && i < len(t.nodes) }

// Majority returns the least number of members that is more than half of n.
func Majority(n int) int { return n/2 + 1 }

// Rotation returns the rotation of a lock's tree among n members: the 64-bit
// FNV-1a hash of the lock's name, modulo n. All members must agree on it, so it
// is part of the protocol and never changes. With no members it is 0.
func Rotation(lock string, n int) int {
	const (
		offset = 14695981039346656037
		prime  = 1099511628211
	)
	if n < 1 {
		return 0
	}
	// Inline, since a hash.Hash would allocate once a lock call.
	h := uint64(offset)
	for i := range len(lock) {
		h = (h ^ uint64(lock[i])) * prime
	}
	return int(h % uint64(n))
}
