package node

import (
	"math"
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// Twin returns a deep copy, for a search that follows several futures of one node.
// What the last calls left to send must have been taken. Only packages below node can
// make a Key.
func (n *Node) Twin(breakage.Key) *Node {
	c := new(Node)
	*c = *n
	c.out, c.inbox, c.free = Output{}, nil, nil
	c.trees = slices.Clone(n.trees)
	c.bestFirst, c.values, c.votes = slices.Clone(n.bestFirst), slices.Clone(n.values), slices.Clone(n.votes)
	c.peers = slices.Clone(n.peers)
	for i := range c.peers {
		c.peers[i].former = slices.Clone(c.peers[i].former)
	}
	c.timers.heap = make([]*timer, len(n.timers.heap))
	c.moved(&c.peerTimer.timer, &c.peerTimer)
	c.moved(&c.endQuarantine.timer, &c.endQuarantine)
	c.moved(&c.floors.timer.timer, &c.floors.timer)
	c.floors.byLock, c.floors.order = twins(n.floors.byLock, same), slices.Clone(n.floors.order)
	c.twinMember(n)
	c.twinRequester(n)
	return c
}

// moved sets a timer of the copy into the place in the heap that it has in the original.
func (n *Node) moved(t *timer, owner timed) {
	t.owner = owner
	if t.pos > 0 {
		n.timers.heap[t.pos-1] = t
	}
}

func (n *Node) twinMember(from *Node) {
	n.incarnations = twins(from.incarnations, func(k *known) *known { d := *k; return &d })
	n.sessions = make(map[sessionKey]*session, len(from.sessions))
	for _, t := range from.timers.heap { // every session has a timer
		if s, ok := t.owner.(*session); ok {
			d := new(session)
			*d = *s
			d.entries = twins(s.entries, func(e *entry) *entry { f := *e; f.session = d; return &f })
			d.ended = [2]map[string]uint64{twins(s.ended[0], same), twins(s.ended[1], same)}
			n.moved(&d.timer, d)
			n.sessions[d.key] = d
		}
	}
	n.locks = twins(from.locks, func(l *lockState) *lockState {
		d := new(lockState)
		*d = *l
		entry := func(e *entry) *entry { return n.sessions[e.session.key].entries[l.name] }
		if d.grant != nil {
			d.grant = entry(l.grant)
		}
		d.queue = slices.Clone(l.queue)
		for i, e := range l.queue {
			d.queue[i] = entry(e)
		}
		n.moved(&d.timer, d)
		return d
	})
}

func (n *Node) twinRequester(from *Node) {
	n.calls = make(map[CallID]*caller, len(from.calls))
	n.requests = slices.Clone(from.requests)
	n.locals = twins(from.locals, func(l *local) *local {
		d := new(local)
		*d = *l
		call := func(c *caller) *caller { e := *c; e.local = d; n.calls[e.id] = &e; return &e }
		d.queue = slices.Clone(l.queue)
		for i, c := range l.queue {
			d.queue[i] = call(c)
		}
		if l.lease != nil {
			d.lease = call(l.lease)
		}
		r := new(request)
		*r = *l.req
		r.local, r.asks = d, slices.Clone(l.req.asks)
		n.moved(&r.timer, r)
		d.req, n.requests[r.pos] = r, r
		return d
	})
}

// twins copies a map; nil stays nil.
func twins[V any](m map[string]V, twin func(V) V) map[string]V {
	if m == nil {
		return nil
	}
	c := make(map[string]V, len(m))
	for _, k := range sortedKeys(m) {
		c[k] = twin(m[k])
	}
	return c
}

func same[V any](v V) V { return v }

// Counted returns the members whose grants for the lock this node would count at now,
// and the timestamp of its request. It is zero when the node has no request that waits
// or holds.
func (n *Node) Counted(_ breakage.Key, now Instant, lock string) (quorum.Set, Timestamp) {
	l := n.locals[lock]
	if l == nil || l.req == nil {
		return quorum.Set{}, 0
	}
	var members quorum.Set
	for i := range l.req.asks {
		if l.req.state != requestWithdrawn && n.granted(l.req, i) > now {
			members = members.With(i)
		}
	}
	return members, l.req.time
}

// Ends returns when this member will next end a session, or its quarantine, if it hears
// nothing more.
func (n *Node) Ends(breakage.Key) Instant {
	end := Instant(math.MaxInt64)
	if n.quarantined {
		end = n.endQuarantine.at
	}
	for _, t := range n.timers.heap {
		if s, ok := t.owner.(*session); ok && !s.goodbye {
			end = min(end, s.heard.Add(n.tm.session))
		}
	}
	return end
}
