package quorum

import (
	"strings"
	"testing"
)

// Any inputs: nothing panics, and what is found is what was asked for.
func FuzzTree(f *testing.F) {
	f.Add(15, 0, uint64(0x7fff), uint64(0), 2, []byte{}, "node-1")
	f.Add(15, 3, uint64(0x77ff), uint64(0), -1, []byte{9, 1, 200}, "")
	f.Add(127, 126, ^uint64(0), ^uint64(0), 126, []byte("costs"), "a name that is rather wide")
	f.Add(2, 1, uint64(1), uint64(0), 1, []byte{255}, "ä\xff")
	f.Add(0, 0, uint64(0), uint64(0), 0, []byte{}, "x")
	f.Fuzz(func(t *testing.T, n, rotation int, lo, hi uint64, self int, seed []byte, label string) {
		tree, err := New(n, rotation)
		if valid := n >= 1 && n <= MaxMembers && rotation >= 0 && rotation < n; valid != (err == nil) {
			t.Fatalf("New(%d, %d): %v; want an error: %v", n, rotation, err, !valid)
		}
		if err != nil {
			return
		}
		up := Set{lo: lo, hi: hi}.Intersect(All(MaxMembers))
		cost := make([]int64, n)
		for i := range cost {
			if len(seed) > 0 {
				cost[i] = int64(int8(seed[i%len(seed)])) << (i % 64)
			}
		}
		q, ok := tree.Select(up, self, cost)
		if ok != tree.Contains(up) || ok != tree.Contains(q) || !q.Minus(up).Empty() {
			t.Fatalf("n=%d rotation=%d self=%d: Select of %v = %v, %v; Contains %v", n, rotation, self, up, q, ok, tree.Contains(up))
		}
		if tree.Contains(up) == tree.Contains(All(n).Minus(up)) {
			t.Fatalf("n=%d rotation=%d: both or none of %v and its complement include a quorum", n, rotation, up)
		}
		checkBottleneck(t, tree, cost)
		if len(label) > 300 {
			return
		}
		lines := strings.Split(strings.TrimSuffix(tree.Draw(func(int) string { return label }), "\n"), "\n")
		if !strings.Contains(label, "\n") && len(lines) > 2*n {
			t.Fatalf("n=%d: drawn in %d lines; want at most 2 a member", n, len(lines))
		}
	})
}

// checkBottleneck checks that those at or above the result include a quorum, and
// that those above it do not.
func checkBottleneck(t *testing.T, tree *Tree, value []int64) {
	t.Helper()
	b := tree.Bottleneck(value)
	var reach, above Set
	for i, v := range value {
		if v >= b {
			reach = reach.With(i)
		}
		if v > b {
			above = above.With(i)
		}
	}
	if !tree.Contains(reach) || tree.Contains(above) {
		t.Fatalf("Bottleneck(%v) = %d: at or above it a quorum %v, above it %v; want true, false",
			value, b, tree.Contains(reach), tree.Contains(above))
	}
}
