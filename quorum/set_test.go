package quorum

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A Set must do what a map from index to bool does.
func TestSetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := rapid.IntRange(0, MaxMembers-1)
		a := rapid.SliceOfN(index, 0, 60).Draw(t, "a")
		b := rapid.SliceOfN(index, 0, 60).Draw(t, "b")
		i := rapid.OneOf(index, rapid.SampledFrom([]int{0, 63, 64, 126})).Draw(t, "i")
		sa, sb := NewSet(a...), NewSet(b...)
		inA := func(i int) bool { return slices.Contains(a, i) }
		inB := func(i int) bool { return slices.Contains(b, i) }
		for _, c := range []struct {
			name string
			got  Set
			want func(int) bool
		}{
			{"NewSet", sa, inA},
			{"With", sa.With(i), func(j int) bool { return j == i || inA(j) }},
			{"Without", sa.Without(i), func(j int) bool { return j != i && inA(j) }},
			{"Union", sa.Union(sb), func(j int) bool { return inA(j) || inB(j) }},
			{"Intersect", sa.Intersect(sb), func(j int) bool { return inA(j) && inB(j) }},
			{"Minus", sa.Minus(sb), func(j int) bool { return inA(j) && !inB(j) }},
			{"All", All(i), func(j int) bool { return j < i }},
		} {
			checkMembers(t, c.name, c.got, c.want)
		}
		if got, want := sa.Intersects(sb), slices.ContainsFunc(a, inB); got != want {
			t.Fatalf("%v.Intersects(%v) = %v; want %v", sa, sb, got, want)
		}
	})
}

// checkMembers compares s, seen through each of its readers, with want.
func checkMembers(t *rapid.T, name string, s Set, want func(int) bool) {
	t.Helper()
	var list []int
	for j := range MaxMembers {
		if want(j) {
			list = append(list, j)
		}
		if s.Has(j) != want(j) {
			t.Fatalf("%s: %v has %d: %v; want %v", name, s, j, s.Has(j), want(j))
		}
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, list) {
		t.Fatalf("%s: All gives %v; want %v", name, got, list)
	}
	if s.Len() != len(list) || s.Empty() != (len(list) == 0) {
		t.Fatalf("%s: Len %d, Empty %v; want those of %v", name, s.Len(), s.Empty(), list)
	}
	if s != NewSet(list...) {
		t.Fatalf("%s: %v is not == to the set made of its members %v", name, s, list)
	}
}

func TestSetAllStopsEarly(t *testing.T) {
	for _, stop := range []int{2, 70} {
		var got []int
		for i := range NewSet(2, 5, 70, 71).All() {
			got = append(got, i)
			if i == stop {
				break
			}
		}
		if got[len(got)-1] != stop {
			t.Errorf("broke off at %d and yet saw %v", stop, got)
		}
	}
}

func TestSetString(t *testing.T) {
	for want, s := range map[string]Set{"{}": {}, "{0}": NewSet(0), "{1,3,64,126}": NewSet(126, 3, 64, 1, 3)} {
		if got := s.String(); got != want {
			t.Errorf("String() = %q; want %q", got, want)
		}
	}
}

func TestSetIndexOutOfRange(t *testing.T) {
	full := All(MaxMembers)
	for _, i := range []int{-1 << 63, -128, -65, -64, -63, -1, 127, 128, 191, 192, 1<<63 - 1} {
		if full.Has(i) {
			t.Errorf("Has(%d) of the full set; want false", i)
		}
		if full.Without(i) != full {
			t.Errorf("Without(%d) took something from the full set: %v", i, full.Without(i))
		}
		mustPanic(t, "With", i, func() { full.With(i) })
		mustPanic(t, "NewSet", i, func() { NewSet(0, i) })
		if i != MaxMembers {
			mustPanic(t, "All", i, func() { All(i) })
		}
	}
}

func mustPanic(t *testing.T, what string, i int, call func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s(%d) did not panic; want a panic that names the index", what, i)
		}
	}()
	call()
}
