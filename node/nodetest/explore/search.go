package explore

import (
	"math"
	"slices"
)

// step is how a state was first reached: by a choice in another one.
type step struct {
	from   uint32
	choice uint8
}

// search is one run of Search.
type search struct {
	first  *world
	hash   *hasher
	seen   map[uint64]uint32 // hash to step
	steps  []step
	result Result
	last   Path     // to the state that was looked at last
	worlds []*world // on that path; the next one has most of it in common
	// merged is told of every state that is reached again, for TestHashIsHonest.
	merged func(a, b Path)
}

// leafPart is the part of the states with messages under way from which time goes on to
// the end, as a divisor.
const leafPart = 8

// Search visits every state that is at most depth choices away, or as many as limit
// allows, and stops at the first violation, which is one with the shortest path.
func Search(sc Scenario, depth, limit int) *Result {
	return newSearch(sc).run(depth, limit)
}

func newSearch(sc Scenario) *search {
	s := &search{first: begin(sc), hash: newHasher(), seen: map[uint64]uint32{}, steps: make([]step, 1, 1024)}
	s.seen[s.hash.world(s.first)] = 0
	s.result.States = 1
	return s
}

func (s *search) run(depth, limit int) *Result {
	r := &s.result
	level := []uint32{0}
	for d := 1; d <= depth && len(level) > 0; d++ {
		var next []uint32
		for _, at := range level {
			if next = s.expand(at, next); r.Violation != nil || r.States >= limit {
				r.Depth = d
				return r
			}
		}
		level = next
		r.Depth, r.Queue = d, max(r.Queue, len(level))
	}
	r.Closed = len(level) == 0
	return r
}

// expand follows every choice of a state, and adds the new states to next.
func (s *search) expand(at uint32, next []uint32) []uint32 {
	r := &s.result
	path := s.path(at)
	w := s.follow(path)
	for i, c := range w.choices() {
		r.Transitions++
		v := w.fork()
		if v.do(c); v.violation != nil {
			s.fail(v, append(path, uint8(i)))
			return next
		}
		r.Flight = max(r.Flight, len(v.flight))
		sum := s.hash.world(v)
		if was, ok := s.seen[sum]; ok {
			if s.merged != nil {
				s.merged(s.path(was), append(slices.Clone(path), uint8(i)))
			}
			continue
		}
		id := uint32(len(s.steps))
		s.seen[sum] = id
		s.steps = append(s.steps, step{from: at, choice: uint8(i)})
		next = append(next, id)
		r.States++
		if len(v.flight) == 0 || r.States%leafPart == 0 {
			r.Endings++
			if v = v.fork(); v.goOn() != nil {
				s.fail(v, append(path, uint8(i)))
				return next
			}
		}
	}
	return next
}

// follow returns the world that the choices lead to.
func (s *search) follow(p Path) *world {
	k := 0
	for k < len(p) && k < len(s.last) && p[k] == s.last[k] {
		k++
	}
	s.worlds = s.worlds[:k]
	for ; k < len(p); k++ {
		w := s.first
		if k > 0 {
			w = s.worlds[k-1]
		}
		w = w.fork()
		w.do(w.choices()[p[k]])
		s.worlds = append(s.worlds, w)
	}
	s.last = p
	if len(p) == 0 {
		return s.first
	}
	return s.worlds[len(p)-1]
}

func (s *search) fail(w *world, p Path) {
	s.result.Violation, s.result.Path = w.violation, slices.Clone(p)
}

// path returns the choices that lead to a state.
func (s *search) path(at uint32) Path {
	var p Path
	for ; at != 0; at = s.steps[at].from {
		p = append(p, s.steps[at].choice)
	}
	slices.Reverse(p)
	return p
}

// NoLimit is a limit for Search.
const NoLimit = math.MaxInt
