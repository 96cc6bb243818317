package nodetest

import (
	"slices"
)

// target picks whom a fault hits: those who matter more often than others.
func (s *sim) target() *process {
	switch s.rand.IntN(5) {
	case 0:
		if p := s.holder(); p != nil {
			return p
		}
	case 1:
		return s.root()
	case 2:
		return s.nearRoot()
	case 3:
		if p := s.waiter(); p != nil {
			return p
		}
	}
	return s.procs[s.rand.IntN(len(s.procs))]
}

// aMember picks a member: the root, one below it, or any.
func (s *sim) aMember() *process {
	switch s.rand.IntN(3) {
	case 0:
		return s.root()
	case 1:
		return s.nearRoot()
	}
	return s.procs[s.rand.IntN(s.opt.Members)]
}

// someCall picks a call that holds or waits, or nil. Ids are tried in order, so
// that a seed always finds the same one.
func (s *sim) someCall(holds bool) *call {
	var found []*call
	for _, p := range s.procs {
		for i := range p.slots {
			if c := p.slots[i].call; c != nil && c.holds == holds {
				found = append(found, c)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[s.rand.IntN(len(found))]
}

func (s *sim) holder() *process {
	if c := s.someCall(true); c != nil {
		return c.who
	}
	return nil
}

func (s *sim) waiter() *process {
	if c := s.someCall(false); c != nil {
		return c.who
	}
	return nil
}

func (s *sim) rootOf(lock string) int { return s.tree(lock).Root() }

func (s *sim) root() *process { return s.procs[s.rootOf(s.someLock())] }

func (s *sim) nearRoot() *process {
	t := s.tree(s.someLock())
	left, right := t.Children(t.Root())
	if left >= 0 && chance(s.rand, 0.5) {
		return s.procs[left]
	}
	if right >= 0 {
		return s.procs[right]
	}
	return s.procs[t.Root()]
}

// group picks a random part of all processes, never empty and never all.
func (s *sim) group() []*process {
	all := slices.Clone(s.procs)
	s.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+s.rand.IntN(max(len(all)-1, 1))]
}

// path picks the members of a path of a tree, and some of the clients.
func (s *sim) path() []*process {
	var path []*process
	t := s.tree(s.someLock())
	for v := t.Root(); v >= 0; {
		path = append(path, s.procs[v])
		left, right := t.Children(v)
		v = right
		if left >= 0 && chance(s.rand, 0.5) {
			v = left
		}
	}
	for _, p := range s.procs[s.opt.Members:] {
		if chance(s.rand, 0.5) {
			path = append(path, p)
		}
	}
	return path
}
