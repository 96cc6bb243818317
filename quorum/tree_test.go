package quorum

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		n, rotation int
		want        error
	}{
		{-1, 0, ErrMembers},
		{0, 0, ErrMembers},
		{MaxMembers + 1, 0, ErrMembers},
		{7, -1, ErrRotation},
		{7, 7, ErrRotation},
		{1, 1, ErrRotation},
		{1, 0, nil},
		{MaxMembers, MaxMembers - 1, nil},
	} {
		tree, err := New(c.n, c.rotation)
		if !errors.Is(err, c.want) || (tree == nil) != (c.want != nil) {
			t.Errorf("New(%d, %d) = %v, %v; want error %v", c.n, c.rotation, tree != nil, err, c.want)
		}
	}
}

// The shape of every size: in order, the sides as large as the rule says, and a
// single child nowhere with n odd and exactly once with n even.
func TestShape(t *testing.T) {
	for n := 1; n <= MaxMembers; n++ {
		tree := mustNew(t, n, 0)
		if tree.Size() != n {
			t.Fatalf("n=%d: Size() = %d", n, tree.Size())
		}
		lone := 0
		if got := checkSubtree(t, tree, tree.Root(), -1, 0, n, 0, &lone); got != n {
			t.Errorf("n=%d: the tree holds %d members", n, got)
		}
		if want := 1 - n%2; lone != want {
			t.Errorf("n=%d: %d nodes with one child; want %d", n, lone, want)
		}
	}
}

// checkSubtree checks that v's subtree holds exactly the members lo to hi-1, and
// returns how many it saw.
func checkSubtree(t *testing.T, tree *Tree, v, parent, lo, hi, depth int, lone *int) int {
	t.Helper()
	if lo == hi {
		if v != -1 {
			t.Errorf("n=%d: node %d stands where none should", tree.Size(), v)
		}
		return 0
	}
	size := hi - lo
	left := (size - 1) / 2
	if size%2 == 1 && left%2 == 0 && size > 1 {
		left++
	}
	if v != lo+left || tree.Parent(v) != parent || tree.Depth(v) != depth {
		t.Fatalf("n=%d, members %d to %d: root %d, parent %d, depth %d; want %d, %d, %d",
			tree.Size(), lo, hi-1, v, tree.Parent(v), tree.Depth(v), lo+left, parent, depth)
	}
	if size == 2 {
		*lone++
	}
	l, r := tree.Children(v)
	return 1 + checkSubtree(t, tree, l, v, lo, v, depth+1, lone) + checkSubtree(t, tree, r, v, v+1, hi, depth+1, lone)
}

func TestPerfectTreeOfFifteen(t *testing.T) {
	tree := mustNew(t, 15, 0)
	want := map[int][2]int{8: {4, 12}, 4: {2, 6}, 12: {10, 14}, 2: {1, 3}, 6: {5, 7}, 10: {9, 11}, 14: {13, 15}}
	if tree.Root() != 8-1 {
		t.Errorf("root %d; want 8", tree.Root()+1)
	}
	for i := 1; i <= 15; i++ {
		l, r := tree.Children(i - 1)
		if got := [2]int{l + 1, r + 1}; got != want[i] {
			t.Errorf("children of %d: %v; want %v (0: none)", i, got, want[i])
		}
	}
}

func TestNoSuchMember(t *testing.T) {
	tree := mustNew(t, 7, 0)
	for _, i := range []int{-1, 7, 127, -1 << 63} {
		l, r := tree.Children(i)
		if l != -1 || r != -1 || tree.Parent(i) != -1 || tree.Depth(i) != -1 {
			t.Errorf("member %d of 7: children %d %d, parent %d, depth %d; want -1 for all",
				i, l, r, tree.Parent(i), tree.Depth(i))
		}
	}
}

// A rotation moves the members along and leaves the shape as it is.
func TestRotationsAreIsomorphic(t *testing.T) {
	for n := 1; n <= MaxMembers; n++ {
		plain := mustNew(t, n, 0)
		for rotation := range n {
			tree := mustNew(t, n, rotation)
			move := func(i int) int {
				if i < 0 {
					return i
				}
				return (i + rotation) % n
			}
			for i := range n {
				l, r := plain.Children(i)
				gotL, gotR := tree.Children(move(i))
				if gotL != move(l) || gotR != move(r) || tree.Parent(move(i)) != move(plain.Parent(i)) {
					t.Fatalf("n=%d rotation=%d: member %d has children %d %d, parent %d; want %d %d, %d",
						n, rotation, move(i), gotL, gotR, tree.Parent(move(i)), move(l), move(r), move(plain.Parent(i)))
				}
			}
			if tree.Root() != move(plain.Root()) {
				t.Fatalf("n=%d rotation=%d: root %d; want %d", n, rotation, tree.Root(), move(plain.Root()))
			}
		}
	}
}

// These numbers are the protocol: members of different versions must agree.
func TestRotationNeverChanges(t *testing.T) {
	for _, c := range []struct {
		lock string
		hash uint64 // published values of 64-bit FNV-1a
	}{
		{"", 0xcbf29ce484222325},
		{"a", 0xaf63dc4c8601ec8c},
		{"foobar", 0x85944171f73967e8},
	} {
		for n := 2; n <= MaxMembers; n++ {
			if got, want := Rotation(c.lock, n), int(c.hash%uint64(n)); got != want {
				t.Errorf("Rotation(%q, %d) = %d; want %d", c.lock, n, got, want)
			}
		}
	}
	for _, n := range []int{-1, 0, 1} {
		if got := Rotation("x", n); got != 0 {
			t.Errorf("Rotation of %d members = %d; want 0", n, got)
		}
	}
	h := fnv.New64a()
	long := strings.Repeat("dns/ä\x00\xff", 40)
	_, _ = h.Write([]byte(long))
	if got, want := Rotation(long, 15), int(h.Sum64()%15); got != want {
		t.Errorf("Rotation of a long name = %d; want %d", got, want)
	}
}

func TestRotationSpreadsRoots(t *testing.T) {
	const n, locks = 7, 7000
	var roots [n]int
	for i := range locks {
		roots[mustNew(t, n, Rotation(fmt.Sprintf("lock-%d", i), n)).Root()]++
	}
	for i, got := range roots {
		if got < locks/n*8/10 || got > locks/n*12/10 {
			t.Errorf("member %d is the root of %d locks of %d; want %d, give or take 20 %%", i, got, locks, locks/n)
		}
	}
}

func TestMajority(t *testing.T) {
	for n := 1; n <= MaxMembers; n++ {
		if m := Majority(n); 2*m <= n || 2*(m-1) > n {
			t.Errorf("Majority(%d) = %d; want the least number above %d/2", n, m, n)
		}
	}
}
