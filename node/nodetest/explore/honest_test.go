package explore

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

// futures returns the hashes of all states that can come next, and of those after them
// down to depth.
func (s *search) futures(w *world, depth int) map[uint64]int {
	all := map[uint64]int{}
	for _, c := range w.choices() {
		v := w.fork()
		v.do(c)
		all[s.hash.world(v)]++
		if depth > 1 {
			for sum, n := range s.futures(v, depth-1) {
				all[sum] += n
			}
		}
	}
	return all
}

func (w *world) after(p Path) *world {
	v := w.fork()
	for _, i := range p {
		v.do(v.choices()[i])
	}
	return v
}

// compareMerged searches, holds every so many pairs of states that are taken for one against
// each other, and stops doing so at the first whose futures differ.
func compareMerged(sc Scenario, depth, every int, change func(h *hasher)) (compared, differ int, first [2]Path) {
	s := newSearch(sc)
	other := newSearch(sc) // whose hash is always right
	if change != nil {
		s.hash = newHasher()
		change(s.hash)
		s.seen = map[uint64]uint32{s.hash.world(s.first): 0}
	}
	count := 0
	s.merged = func(a, b Path) {
		if count++; count%every != 0 || differ > 0 {
			return
		}
		compared++
		if !maps.Equal(other.futures(s.first.after(a), 2), other.futures(s.first.after(b), 2)) {
			if differ++; differ == 1 {
				first = [2]Path{a, b}
			}
		}
	}
	s.run(depth, NoLimit)
	return compared, differ, first
}

// TestHashIsHonest: what is taken for one state has one future.
func TestHashIsHonest(t *testing.T) {
	for _, name := range []string{"order3", "again3", "wakes3", "sleep2", "restart3", "tokens3", "late2", "former1"} {
		sc := scenario(t, name)
		compared, differ, paths := compareMerged(sc, min(sc.Depth, 8), 16, nil)
		if differ > 0 {
			t.Errorf("%s: %v and %v are taken for one state, and have different futures", name, paths[0], paths[1])
		}
		if compared < 10 {
			t.Errorf("%s: %d pairs are no test", name, compared)
		}
	}
}

// TestDishonestHashIsSeen: a field that is forgotten shows.
func TestDishonestHashIsSeen(t *testing.T) {
	for _, field := range []string{"request.asks", "session.heard", "requester.peers"} {
		forget := func(h *hasher) {
			h.rules, h.plans = hashRules(), map[reflect.Type]visit{}
			h.rules[field] = nil
			h.core = h.plan(reflect.TypeFor[node.Node]())
		}
		if compared, differ, _ := compareMerged(scenario(t, "wakes2"), 6, 1, forget); differ == 0 {
			t.Errorf("without %s %d pairs compared have the same futures", field, compared)
		}
	}
}

// TestHashRulesAreUsed: a field that was renamed must be looked at anew.
func TestHashRulesAreUsed(t *testing.T) {
	h := newHasher()
	for _, rule := range slices.Sorted(maps.Keys(h.rules)) {
		if !h.used[rule] {
			t.Errorf("there is no field %s", rule)
		}
	}
}

// TestTwinSharesNothing: the original of a twin, and its twin, can go their ways.
func TestTwinSharesNothing(t *testing.T) {
	sc := scenario(t, "restart3")
	sc.Tokens = true
	w := begin(sc)
	for step := range 40 {
		cs := w.choices()
		if len(cs) == 0 {
			break
		}
		w.do(cs[(step*7)%len(cs)])
		for i := range w.nodes {
			core := w.places[i].core
			twin := core.Twin(breakage.Key{})
			a, b := map[uintptr]string{}, map[uintptr]string{}
			pointers(reflect.ValueOf(core), "Node", a)
			pointers(reflect.ValueOf(twin), "Node", b)
			for at, where := range a {
				if other, ok := b[at]; ok {
					t.Fatalf("step %d: %s is shared with %s of the twin", step, where, other)
				}
			}
			if len(a) != len(b) || len(a) < 10 {
				t.Fatalf("step %d: %d pointers, the twin has %d", step, len(a), len(b))
			}
			hash := newHasher()
			before := hash.world(w)
			v := w.fork()
			v.places[i].core, v.places[i].sumAt = twin, 0
			if after := hash.world(v); before != after {
				t.Fatalf("step %d: the twin of %s has another hash", step, w.names[i])
			}
		}
	}
}

// pointers collects what a core can change through a pointer, a map or a slice.
func pointers(v reflect.Value, where string, all map[uintptr]string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map:
		if v.IsNil() || all[v.Pointer()] != "" {
			return
		}
		all[v.Pointer()] = where
	case reflect.Slice:
		if v.Len() == 0 { // Clone keeps no room
			return
		}
		all[v.Pointer()+1] = where // its first element may be what another pointer points to
	default:
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			pointers(v.Elem(), where, all)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Name() + "." + v.Type().Field(i).Name; name {
			case "Node.cfg", "Node.members", "Node.index", "Node.trees", "request.tree": // never changed, or all alike
			case "Node.out", "Node.inbox", "requester.free", "caller.told": // dropped, or replaced as a whole
			default:
				pointers(v.Field(i), name, all)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			pointers(v.Index(i), where, all)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			pointers(it.Value(), where, all)
		}
	default:
	}
}
