package node

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// checkInvariants checks what must be true of a node between any two calls.
func checkInvariants(n *Node) error {
	return errors.Join(checkTimers(n), checkLocks(n), checkSessions(n), checkFloors(n), checkRequests(n), checkIdle(n))
}

func checkIdle(n *Node) error {
	if len(n.inbox) > 0 || n.review {
		return fmt.Errorf("left undone: %d messages to itself, review %v", len(n.inbox), n.review)
	}
	return nil
}

// checkTimers: the heap is in order, every place is right, and nothing is overdue.
func checkTimers(n *Node) error {
	for i, t := range n.timers.heap {
		switch {
		case t.pos != i+1:
			return fmt.Errorf("timer %d says that it is at %d", i, t.pos-1)
		case t.owner == nil:
			return fmt.Errorf("timer %d has no owner", i)
		case t.at <= n.now && t != &n.peerTimer.timer: // an answer can show that another one is late
			return fmt.Errorf("timer %d of a %T was due at %d, now is %d", i, t.owner, t.at, n.now)
		case i > 0 && n.timers.less(i, (i-1)/2):
			return fmt.Errorf("timer %d is before its parent", i)
		}
	}
	return nil
}

// checkLocks is I4 and the order of queues (R2).
func checkLocks(n *Node) error {
	if len(n.locks) > n.limits.Locks {
		return fmt.Errorf("%d locks, limit %d", len(n.locks), n.limits.Locks)
	}
	for name, l := range n.locks {
		if err := checkLock(n, name, l); err != nil {
			return fmt.Errorf("lock %q: %w", name, err)
		}
	}
	return nil
}

func checkLock(n *Node, name string, l *lockState) error {
	switch {
	case l.name != name:
		return fmt.Errorf("called %q", l.name)
	case l.grant == nil:
		return fmt.Errorf("kept without a grant, %d in the queue", len(l.queue))
	case l.number == 0 || l.number > n.grantNumber:
		return fmt.Errorf("grant number %d of %d", l.number, n.grantNumber)
	case slices.Contains(l.queue, l.grant):
		return errors.New("I4: the granted request is in the queue")
	case len(l.queue) > n.limits.Queue:
		return fmt.Errorf("%d in the queue, limit %d", len(l.queue), n.limits.Queue)
	case len(l.queue) > 0 != (l.pos > 0):
		return fmt.Errorf("%d wait, timer set: %v", len(l.queue), l.pos > 0)
	}
	for i, e := range append([]*entry{l.grant}, l.queue...) {
		switch {
		case n.sessions[e.session.key] != e.session || e.session.goodbye:
			return fmt.Errorf("I4: request %d of %s has no live session", e.id, e.session.key.name)
		case e.session.entries[name] != e:
			return fmt.Errorf("request %d is not that of the session of %s", e.id, e.session.key.name)
		case i > 1 && e.before(l.queue[i-2]):
			return fmt.Errorf("R2: request %d of %s stands behind one that is later", e.id, e.session.key.name)
		}
	}
	return nil
}

func checkSessions(n *Node) error {
	if n.clients > n.limits.Clients || len(n.sessions) > n.limits.Clients+maxIncarnations*len(n.members) {
		return fmt.Errorf("%d sessions, %d of clients, limit %d", len(n.sessions), n.clients, n.limits.Clients)
	}
	wishes, names, numbers := 0, map[string]int{}, map[uint64]bool{}
	for key, s := range n.sessions {
		names[key.name]++
		if s.wish {
			wishes++
		}
		switch {
		case s.key != key:
			return fmt.Errorf("session of %v is kept as %v", s.key, key)
		case s.number == 0 || s.number > n.sessionNumber || numbers[s.number]:
			return fmt.Errorf("session number %d of %d, given before: %v", s.number, n.sessionNumber, numbers[s.number])
		case s.pos == 0:
			return fmt.Errorf("the session of %s never ends", key.name)
		case n.incarnations[key.name] == nil || key.inc.Compare(n.incarnations[key.name].highest) > 0:
			return fmt.Errorf("the incarnation of %s is higher than the highest known", key.name)
		case len(s.ended[0]) > maxEnded || len(s.ended[1]) > maxEnded:
			return fmt.Errorf("%d and %d ended ids of %s", len(s.ended[0]), len(s.ended[1]), key.name)
		}
		numbers[s.number] = true
		for lock, e := range s.entries {
			l := n.locks[lock]
			if l == nil || l.grant != e && !slices.Contains(l.queue, e) {
				return fmt.Errorf("request %d of %s is not at lock %q", e.id, key.name, lock)
			}
		}
	}
	if wishes != n.wishes {
		return fmt.Errorf("%d sessions wish for majority mode, counted %d", wishes, n.wishes)
	}
	for name, k := range n.incarnations {
		if k.sessions != names[name] || k.sessions == 0 {
			return fmt.Errorf("%d sessions of %s, counted %d", names[name], name, k.sessions)
		}
	}
	return nil
}

func checkFloors(n *Node) error {
	f := &n.floors
	if len(f.byLock) > n.limits.Floors || len(f.order)-f.oldest != len(f.byLock) {
		return fmt.Errorf("%d floors of %d, %d in order", len(f.byLock), n.limits.Floors, len(f.order)-f.oldest)
	}
	for _, lock := range f.order[f.oldest:] {
		if floor, ok := f.byLock[lock]; !ok || floor.token > f.highest {
			return fmt.Errorf("floor %d of %q, listed %v, highest %d", floor.token, lock, ok, f.highest)
		}
	}
	if f.base > f.highest {
		return fmt.Errorf("base floor %d above the highest, %d", f.base, f.highest)
	}
	return nil
}

func checkRequests(n *Node) error {
	if len(n.requests) != len(n.locals) || len(n.calls) > n.limits.Calls {
		return fmt.Errorf("%d requests for %d locks, %d calls", len(n.requests), len(n.locals), len(n.calls))
	}
	calls := 0
	for i, r := range n.requests {
		l := r.local
		if r.pos != i || l == nil || l.req != r || n.locals[l.name] != l {
			return fmt.Errorf("request %d says that it is %d, local %v", i, r.pos, l)
		}
		calls += len(l.queue)
		if l.lease != nil {
			calls++
		}
		if err := checkRequest(n, r); err != nil {
			return fmt.Errorf("request for %q: %w", l.name, err)
		}
	}
	if calls != len(n.calls) {
		return fmt.Errorf("%d callers, %d calls", calls, len(n.calls))
	}
	for _, r := range n.free {
		if r.local != nil || r.timer.pos != 0 {
			return errors.New("a request that is free for use is in use")
		}
	}
	return nil
}

func checkRequest(n *Node, r *request) error {
	l := r.local
	switch {
	case (l.lease != nil) != (r.state == requestHolding):
		return fmt.Errorf("state %d, lease %v", r.state, l.lease != nil)
	case l.lease == nil && len(l.queue) == 0:
		return errors.New("nobody wants it")
	case l.lease != nil && !holds(n, l.name, n.now):
		return errors.New("I2: a lease is kept after its deadline")
	case l.lease != nil && n.calls[l.lease.id] != l.lease:
		return errors.New("the lease is of no call")
	case r.timer.pos == 0:
		return errors.New("nothing wakes it")
	case r.state == requestWithdrawn && !r.asked.Empty():
		return errors.New("withdrawn, not released")
	}
	for _, c := range l.queue {
		if n.calls[c.id] != c || c.local != l {
			return fmt.Errorf("caller %d is lost", c.id)
		}
		if c.try && l.lease != nil {
			return fmt.Errorf("R26: caller %d tries while a local caller holds", c.id)
		}
	}
	for i := range r.asks {
		if a := &r.asks[i]; a.number != 0 && a.inc == a.yieldedInc && a.number <= a.yielded {
			return fmt.Errorf("R18: grant %d of member %d counts though %d was yielded", a.number, i, a.yielded)
		}
	}
	return nil
}

// The checker itself can fail: one broken state for each part of it.
func TestInvariantsAreChecked(t *testing.T) {
	breaks := map[string]func(n *Node){
		"timer":    func(n *Node) { n.timers.heap[0].pos = 9 },
		"grant":    func(n *Node) { l := n.locks["L"]; l.queue = append(l.queue, l.grant) },
		"order":    func(n *Node) { l := n.locks["L"]; slices.Reverse(l.queue) },
		"session":  func(n *Node) { delete(n.sessions, n.locks["L"].grant.session.key) },
		"entries":  func(n *Node) { delete(n.locks["L"].grant.session.entries, "L") },
		"wishes":   func(n *Node) { n.wishes++ },
		"floors":   func(n *Node) { n.floors.base = n.floors.highest + 1 },
		"position": func(n *Node) { n.requests[0].pos = 3 },
		"lease":    func(n *Node) { n.requests[0].state = requestHolding },
		"calls":    func(n *Node) { n.calls[99] = &caller{} },
		"inbox":    func(n *Node) { n.inbox = append(n.inbox, Message{}) },
	}
	for name, damage := range breaks {
		s := newMember(t, nil)
		s.request("x", 1, 10)
		s.request("y", 1, 20)
		s.request("z", 1, 30)
		s.lock(1, CallOptions{})
		damage(s.n)
		if checkInvariants(s.n) == nil {
			t.Errorf("%s: no violation seen", name)
		}
	}
}
