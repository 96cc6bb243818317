package node

import (
	"slices"

	"github.com/treequorum/dmutex/quorum"
)

// handOvers is how many local hand-overs are made at the most once others wait
// (R25).
const handOvers = 8

// CallOptions are what a caller asks for besides the lock.
type CallOptions struct {
	Label    string // for people, shown to those who wait
	Try      bool   // fail when the lock is not to be had at once
	LongHold bool   // ask all members once the lock is held, to keep it through failures
	Watch    bool   // emit EventWaiting whenever what is known changes
}

// Lock asks for a lock under a new call id. It ends with EventAcquired or
// EventFailed.
func (n *Node) Lock(now Instant, call CallID, lock string, opt CallOptions) {
	n.begin(now)
	n.startCall(call, lock, opt)
	n.finish()
}

func (n *Node) startCall(call CallID, lock string, opt CallOptions) {
	switch {
	case n.closed || n.stopped:
		n.emit(Event{Type: EventFailed, Call: call, Lock: lock, Failure: FailClosed})
		return
	case len(n.calls) >= n.limits.Calls: // R32
		n.fired(32)
		n.emit(Event{Type: EventFailed, Call: call, Lock: lock, Failure: FailOverloaded})
		return
	}
	l := n.locals[lock]
	if l == nil {
		l = &local{name: lock}
		n.locals[lock] = l
	}
	c := &caller{id: call, label: opt.Label, try: opt.Try, longHold: opt.LongHold, watch: opt.Watch, local: l}
	n.calls[call] = c
	l.queue = append(l.queue, c)
	switch {
	case opt.Try && l.lease != nil: // R26
		n.failCaller(c, FailBusy)
	case l.req == nil:
		n.newRequest(l)
	default:
		n.work(l.req)
	}
	if opt.Try && n.calls[call] == c && l.req != nil { // R26
		c.tryUntil = n.now.Add(2*n.farthest(l.req.want) + n.tm.answer)
		n.timers.setEarlier(&l.req.timer, c.tryUntil)
	}
}

func (n *Node) farthest(s quorum.Set) Duration {
	var far Duration
	for i := range s.All() {
		far = max(far, n.peers[i].roundTrip)
	}
	return far
}

// Cancel ends a call that waits, with EventFailed; another caller of this node
// that waits for the same lock takes its place. It reports false when the call
// does not wait: it holds the lock already, or is over.
func (n *Node) Cancel(now Instant, call CallID) bool {
	n.begin(now)
	defer n.finish()
	c := n.calls[call]
	if c == nil || c.local.lease == c && !c.settling {
		return false
	}
	l := c.local
	failure := n.failure(l.req)
	if l.lease == c {
		l.lease = nil
		n.failCaller(c, failure)
		n.endRequest(l.req)
		n.next(l)
		return true
	}
	n.failCaller(c, failure)
	n.endIfUnused(l)
	return true
}

// endIfUnused takes the request back when nobody waits for it or holds by it.
func (n *Node) endIfUnused(l *local) bool {
	if len(l.queue) > 0 || l.lease != nil {
		return false
	}
	n.endRequest(l.req)
	delete(n.locals, l.name)
	return true
}

// Unlock ends the lease of a call. It reports whether the lock was held until
// now. It passes to the next local caller, or to whoever waits elsewhere (R25).
func (n *Node) Unlock(now Instant, call CallID) bool {
	n.begin(now)
	defer n.finish()
	c := n.calls[call]
	if c == nil || c.local.lease != c || c.settling {
		return false
	}
	l, r := c.local, c.local.req
	if n.deadline(r).until() <= n.now {
		n.lose(r)
		return false
	}
	l.lease = nil
	delete(n.calls, call)
	if len(l.queue) > 0 && (r.others == 0 || r.handed < handOvers && n.now < r.others.Add(n.tm.handOver)) {
		r.handed++
		n.handOver(l)
		return true
	}
	if len(l.queue) > 0 {
		n.fired(25)
	}
	n.endRequest(r)
	n.next(l)
	return true
}

// Deadline returns until when the call's lease is held if nothing more is heard;
// false when it holds nothing.
func (n *Node) Deadline(now Instant, call CallID) (Instant, bool) {
	n.begin(now)
	defer n.finish()
	c := n.calls[call]
	if c == nil || c.local.lease != c {
		return 0, false
	}
	until := n.deadline(c.local.req).until()
	return until, until > n.now
}

// Shutdown releases everything, says goodbye to all members and refuses all that
// comes later.
func (n *Node) Shutdown(now Instant) {
	n.begin(now)
	if !n.closed && !n.stopped {
		n.endAll(FailClosed, LossClosed)
		for i := range n.peers {
			if i != n.self {
				n.toMember(&n.peers[i], Message{Type: MsgGoodbye})
			}
		}
	}
	n.closed = true
	n.finish()
}

// endAll ends every call of this node.
func (n *Node) endAll(failure Failure, loss Loss) {
	for len(n.requests) > 0 {
		l := n.requests[0].local
		if l.lease != nil {
			n.endLease(l, loss)
		}
		for len(l.queue) > 0 {
			n.failCaller(l.queue[0], failure)
		}
		n.endRequest(l.req)
		delete(n.locals, l.name)
	}
}

func (n *Node) failCaller(c *caller, failure Failure) {
	l := c.local
	n.emit(Event{Type: EventFailed, Call: c.id, Lock: l.name, Failure: failure, Facts: n.facts(l)})
	delete(n.calls, c.id)
	if i := slices.Index(l.queue, c); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// failAll fails all that wait behind r and ends it; a lease is left alone.
func (n *Node) failAll(r *request, failure Failure) {
	l := r.local
	for len(l.queue) > 0 {
		n.failCaller(l.queue[0], failure)
	}
	n.endIfUnused(l)
}

// failCallers fails those whose time to try is over, or all when a member's queue
// is full. It reports whether the request is still there.
func (n *Node) failCallers(r *request) bool {
	l := r.local
	holds := false
	for i := range r.want.All() {
		a := &r.asks[i]
		if a.full { // R32
			n.fired(32)
			n.failAll(r, FailOverloaded)
			return false
		}
		holds = holds || a.queued && a.holds && n.granted(r, i) <= n.now
	}
	for i := 0; i < len(l.queue); {
		c := l.queue[i]
		switch {
		case !c.try:
			i++
		case holds: // R26
			n.fired(26)
			n.failCaller(c, FailBusy)
		case c.tryUntil != 0 && n.now >= c.tryUntil: // R26
			n.fired(26)
			n.failCaller(c, n.tryFailure(r))
		default:
			i++
		}
	}
	return !n.endIfUnused(l)
}

// tryFailure is busy when anybody queued the request, no quorum otherwise.
func (n *Node) tryFailure(r *request) Failure {
	if !r.local.queue[0].try || r.queued() { // not first even among this node's callers
		return FailBusy
	}
	return FailNoQuorum
}

// failure says why a request has not got its lock yet: too few members, or
// somebody before it.
func (n *Node) failure(r *request) Failure {
	if c := r.local.lease; c != nil && !c.settling {
		return FailBusy
	}
	if r.state == requestWaiting && r.below == 0 && r.queued() {
		return FailBusy
	}
	return FailNoQuorum
}

// queued reports whether some member has put the request behind another.
func (r *request) queued() bool {
	return slices.ContainsFunc(r.asks, func(a ask) bool { return a.queued })
}

// facts collects what is known of a lock that this node does not have.
func (n *Node) facts(l *local) Facts {
	var f Facts
	for i := range n.peers {
		p := &n.peers[i]
		switch {
		case n.isUp(p):
		case p.starting && !p.failed && !n.mute(p):
			f.Starting = append(f.Starting, p.name)
		default:
			f.Missing = append(f.Missing, p.name)
		}
		if p.differs {
			f.Differs = append(f.Differs, p.name)
		}
	}
	if l.lease != nil {
		f.Owner, f.Holds, f.Since, f.Queued = n.cfg.Name, true, n.now.Sub(l.lease.since), true
		return f
	}
	if l.req == nil {
		return f
	}
	for i := range l.req.asks {
		a := &l.req.asks[i]
		if !a.queued {
			continue
		}
		if !f.Queued || a.holds && !f.Holds {
			f.Owner, f.Holds, f.Since = a.owner, a.holds, a.since+n.now.Sub(a.at)
		}
		f.Queued = true
		f.Ahead = max(f.Ahead, a.ahead)
	}
	return f
}

// tellWaiting tells the callers that asked for it what changed.
func (n *Node) tellWaiting(r *request) {
	watched := slices.ContainsFunc(r.local.queue, func(c *caller) bool { return c.watch })
	if !watched {
		return
	}
	f := n.facts(r.local)
	for _, c := range r.local.queue {
		if c.watch && !sameFacts(c.told, f) {
			c.told = f
			n.emit(Event{Type: EventWaiting, Call: c.id, Lock: r.local.name, Facts: f})
		}
	}
}

func sameFacts(a, b Facts) bool {
	return a.Queued == b.Queued && a.Owner == b.Owner && a.Holds == b.Holds && a.Ahead == b.Ahead &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Starting, b.Starting) && slices.Equal(a.Differs, b.Differs)
}
