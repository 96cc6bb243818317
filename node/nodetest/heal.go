package nodetest

import "github.com/treequorum/dmutex/quorum"

// healHalf leaves something cut off or down for a while after the faults.
func (s *sim) healHalf() {
	n := s.opt.Members
	s.half = n >= 3
	switch s.opt.Half {
	case HealAll:
		s.half = false
	case KeepDown:
		s.keepDown()
	case KeepHalf, KeepDeaf, KeepDumb:
		if s.half {
			s.keepCut(n)
		}
	}
}

// keepDown leaves so many members down that a majority is just left, which is
// enough for a lock (R34). With the tree only, a quorum of each tree must be left.
func (s *sim) keepDown() {
	up := s.aMajority()
	for i := range s.opt.Locks {
		if s.opt.TreeOnly && !s.tree(lockName(i)).Contains(up) {
			s.half = false
			return
		}
	}
	for i, p := range s.procs[:s.opt.Members] {
		if !up.Has(i) {
			s.stop(p, "STAYS DOWN")
			p.down = true
		}
	}
}

// aMajority picks a majority of the members, often without a path of a tree.
func (s *sim) aMajority() quorum.Set {
	n := s.opt.Members
	up := quorum.All(n)
	t := s.tree(s.someLock())
	for v := t.Root(); up.Len() > quorum.Majority(n); {
		up = up.Without(v)
		left, right := t.Children(v)
		switch {
		case right < 0 || chance(s.rand, 0.2):
			v = s.rand.IntN(n)
		case left >= 0 && chance(s.rand, 0.5):
			v = left
		default:
			v = right
		}
	}
	return up
}

// keepCut leaves one node half cut off.
func (s *sim) keepCut(n int) {
	v := s.target()
	some := make([]bool, len(s.procs))
	for range 1 + s.rand.IntN((n-1)/2) {
		some[s.rand.IntN(n)] = true
	}
	some[v.index] = false
	s.served.exempt = v
	s.trace("%s STAYS CUT OFF, way %d, of %v", v.name, s.opt.Half, some)
	for _, p := range s.procs {
		if p == v {
			continue
		}
		in, out := some[p.index], some[p.index] // what is cut: to v, from v
		switch s.opt.Half {
		case KeepHalf:
			in, out = !in, !out
		case KeepDeaf:
			out = false
		default:
			in = false
		}
		if in {
			s.net.cuts[p.index][v.index]++
		}
		if out {
			s.net.cuts[v.index][p.index]++
		}
	}
}
