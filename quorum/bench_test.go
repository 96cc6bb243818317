package quorum

import (
	"fmt"
	"testing"
)

// hard returns a tree with failures that leave many substitutes to choose from.
func hard(tb testing.TB, n int) (tree *Tree, up Set, cost []int64) {
	tb.Helper()
	tree, err := New(n, n/2)
	if err != nil {
		tb.Fatal(err)
	}
	up = All(n).Without(tree.Root())
	cost = make([]int64, n)
	for i := range cost {
		cost[i] = int64(1 + i*7919%101)
		if d := tree.Depth(i); d == 1 && n > 3 || d == 3 && i%3 == 0 {
			up = up.Without(i)
		}
	}
	return tree, up, cost
}

// Locks ask these questions at every message.
func TestNoAllocations(t *testing.T) {
	for _, n := range []int{3, 7, 15, 126, 127} {
		tree, up, cost := hard(t, n)
		lock := fmt.Sprintf("dns/%d.example.com", n)
		sum, found := 0, false
		for name, call := range map[string]func(){
			"Select":        func() { up, _ := tree.Select(up, -1, cost); sum += up.Len() },
			"Select self":   func() { up, _ := tree.Select(All(n), n-1, cost); sum += up.Len() },
			"Select evenly": func() { up, _ := tree.Select(up, 0, nil); sum += up.Len() },
			"Contains":      func() { found = tree.Contains(up) || found },
			"Bottleneck":    func() { sum += int(tree.Bottleneck(cost)) },
			"Rotation":      func() { sum += Rotation(lock, n) },
			"sets": func() {
				s := NewSet(0, n-1).With(n / 2).Without(0).Union(up).Intersect(All(n)).Minus(NewSet(0))
				for i := range s.All() {
					sum += i
				}
				if s.Has(1) || s.Empty() || s.Intersects(up) {
					sum += s.Len()
				}
			},
		} {
			if got := testing.AllocsPerRun(50, call); got != 0 {
				t.Errorf("n=%d: %s allocates %v times a call; want 0", n, name, got)
			}
		}
		if !found {
			t.Errorf("n=%d: %v includes no quorum; the search is too easy", n, up)
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{3, 7, 15, 127} {
		tree, up, cost := hard(b, n)
		for _, c := range []struct {
			name string
			up   Set
		}{{"allUp", All(n)}, {"failures", up}} {
			b.Run(fmt.Sprintf("n=%d/%s", n, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					tree.Select(c.up, 0, cost)
				}
			})
		}
	}
}

func BenchmarkContains(b *testing.B) {
	for _, n := range []int{3, 7, 15, 127} {
		tree, up, _ := hard(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tree.Contains(up)
			}
		})
	}
}

func BenchmarkBottleneck(b *testing.B) {
	for _, n := range []int{7, 15, 127} {
		tree, _, value := hard(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tree.Bottleneck(value)
			}
		})
	}
}
