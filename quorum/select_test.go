package quorum

import (
	"math"
	"testing"
)

// What Select prefers, on 1..7: root 4, its children 2 and 6, leaves 1 3 5 7.
func TestSelectPrefers(t *testing.T) {
	tree := mustNew(t, 7, 0)
	const huge = math.MaxInt64
	for _, c := range []struct {
		name   string
		self   int
		failed Set
		cost   []int64 // of 1..7
		want   Set
	}{
		{"the nearest farthest member first", 0, Set{}, []int64{5, 1, 5, 1, 4, 4, 4}, article(4, 6, 5)},
		{"then the sum", 0, Set{}, []int64{5, 1, 5, 9, 4, 4, 4}, article(4, 2, 1)},
		{"then the lowest index", 0, Set{}, []int64{3, 2, 3, 9, 2, 3, 2}, article(4, 2, 1)},
		{"the sum below a dear member, not the nearest", 0, article(4), []int64{5, 0, 9, 0, 9, 9, 9}, article(2, 1, 6, 5)},
		{"the sum on one side if the other side is dear", 0, article(4, 2), []int64{1, 0, 2, 0, 8, 9, 7}, article(1, 3, 6, 7)},
		{"through self, whatever it costs", 7, Set{}, []int64{1, 1, 1, 1, 1, 99, 99}, article(4, 6, 7)},
		{"self for nothing", 6, Set{}, []int64{1, 1, 1, 1, 2, huge, 1}, article(4, 6, 7)},
		{"a negative cost is 0", 0, Set{}, []int64{-5, 0, math.MinInt64, 0, 0, 0, 0}, article(4, 2, 1)},
		{"the highest costs do not make it impossible", 0, Set{}, []int64{huge, huge, huge, huge, huge, huge, huge}, article(4, 2, 1)},
		{"a sum past the highest number is not a low one", 0, Set{}, []int64{huge, huge, huge, 0, 0, huge, 0}, article(4, 6, 5)},
		{"no member is -1 or any other index", -8, Set{}, []int64{9, 1, 9, 1, 1, 1, 1}, article(4, 6, 5)},
		{"nor one past the end", 8, Set{}, []int64{9, 1, 9, 1, 1, 1, 1}, article(4, 6, 5)},
	} {
		q, ok := tree.Select(All(7).Minus(c.failed), c.self-1, c.cost)
		if !ok || q != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, spoken(q), ok, spoken(c.want))
		}
	}
}

// "Lowest dearest, then lowest sum" does not add up from the leaves. Here 2 has
// the lower dearest cost with leaf 3 and the lower sum with leaf 1, and under the
// dear root the sum counts.
func TestSelectLooksAtTheWhole(t *testing.T) {
	tree := mustNew(t, 15, 0)
	cost := make([]int64, 15)
	for i := range cost {
		cost[i] = 100
	}
	for name, c := range map[int]int64{8: 50, 4: 1, 2: 20, 1: 3, 3: 3, 6: 1, 5: 21, 7: 40} {
		cost[name-1] = c
	}
	if q, _ := tree.Select(All(15), -1, cost); q != article(8, 4, 6, 5) {
		t.Errorf("asks %v; want [4 5 6 8]: dearest 50 either way, sum 73 and not 74", spoken(q))
	}
}

// The node with a single child is used like any other when it is up.
func TestSelectSingleChild(t *testing.T) {
	tree := mustNew(t, 2, 0) // 0 over 1
	for _, c := range []struct {
		up   Set
		self int
		want Set
		ok   bool
	}{
		{NewSet(0, 1), 0, NewSet(0, 1), true},
		{NewSet(0, 1), 1, NewSet(0, 1), true},
		{NewSet(1), 0, NewSet(1), true},
		{NewSet(1), 1, NewSet(1), true},
		{NewSet(0), 0, Set{}, false},
	} {
		if q, ok := tree.Select(c.up, c.self, nil); q != c.want || ok != c.ok {
			t.Errorf("%d of 2 with %v up asks %v, %v; want %v, %v", c.self, c.up, q, ok, c.want, c.ok)
		}
	}
}

func TestStrangersDoNotMatter(t *testing.T) {
	tree := mustNew(t, 3, 0)
	strangers := All(MaxMembers).Minus(All(3))
	if tree.Contains(strangers.With(1)) {
		t.Error("member 1 of 3 and strangers are a quorum; want none")
	}
	if q, ok := tree.Select(strangers.With(1).With(2), -1, nil); !ok || q != NewSet(1, 2) {
		t.Errorf("asks %v, %v; want {1,2}", q, ok)
	}
	if q, ok := tree.Select(strangers.With(1).With(2), 5, nil); !ok || q != NewSet(1, 2) {
		t.Errorf("a stranger that is up asks %v, %v; want {1,2}", q, ok)
	}
}

func TestBottleneckNotThere(t *testing.T) {
	tree := mustNew(t, 3, 0)
	const gone = math.MinInt64
	for _, c := range []struct {
		value []int64
		want  int64
	}{
		{[]int64{5, 7, 9}, 7},
		{[]int64{5, gone, 9}, 5},
		{[]int64{gone, 7, gone}, gone},
		{[]int64{-5, gone, -9}, -9},
		{[]int64{gone, math.MaxInt64, math.MaxInt64}, math.MaxInt64},
	} {
		if got := tree.Bottleneck(c.value); got != c.want {
			t.Errorf("Bottleneck(%v) = %d; want %d", c.value, got, c.want)
		}
	}
}

func TestTooFewCostsPanic(t *testing.T) {
	tree := mustNew(t, 3, 0)
	mustPanic(t, "Select with 2 costs of 3", 2, func() { tree.Select(All(3), -1, make([]int64, 2)) })
	mustPanic(t, "Bottleneck with 2 values of 3", 2, func() { tree.Bottleneck(make([]int64, 2)) })
}
