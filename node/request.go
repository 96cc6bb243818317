package node

import (
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// work looks at a request anew: whom to ask, whether the lock is held, lost or
// hopeless, and when to look again. It may end the request, so callers must not
// touch r afterwards.
func (n *Node) work(r *request) {
	if r.state == requestHolding {
		n.workHolding(r)
	} else {
		n.workWaiting(r)
	}
}

func (n *Node) workWaiting(r *request) {
	up := n.upSet()
	if !n.updateBelow(r, up) || !n.failCallers(r) {
		return
	}
	n.updateNeed(r, up)
	if r.state == requestWaiting {
		if !n.wanted(r, up) {
			n.choose(r, up)
		}
		n.askMissing(r, n.tm.repeat)
		if limits := n.deadline(r); limits.until() > n.now { // R19, R34
			if limits.tree > n.now {
				n.fired(19)
			} else {
				n.fired(34)
			}
			n.hold(r)
			return
		}
	}
	n.tellWaiting(r)
	n.schedule(r)
}

// updateBelow withdraws a request that sees fewer than a majority up for T/2, so
// that a half-connected node with a low timestamp does not block the others, and
// makes it again when enough are up (R23). It reports whether r still exists.
func (n *Node) updateBelow(r *request, up quorum.Set) bool {
	enough := n.enough(r.tree, up)
	switch {
	case !enough && n.differing():
		n.failAll(r, FailDiffers) // R29
		return false
	case enough && r.state == requestWithdrawn:
		r.state, r.id = requestWaiting, n.nextID()
		clear(r.asks)
		r.below, r.want = 0, quorum.Set{}
	case enough, n.broken(breakage.NoWithdrawal):
		r.below = 0
	case r.below == 0:
		r.below = n.now
	case r.state == requestWaiting && n.now >= r.below.Add(n.tm.withdraw):
		n.releaseAll(r)
		n.fired(23)
		r.state, r.want = requestWithdrawn, quorum.Set{}
	}
	return true
}

// enough reports whether these members suffice for a lock of that tree: a majority,
// or with TreeOnly a quorum of the tree.
func (n *Node) enough(tree *quorum.Tree, up quorum.Set) bool {
	if n.cfg.TreeOnly {
		return tree.Contains(up)
	}
	return up.Len() >= n.majority
}

func (n *Node) differing() bool {
	for i := range n.peers {
		if n.peers[i].differs {
			return true
		}
	}
	return false
}

// wanted reports whether those that are asked still suffice: all up, a quorum,
// and a majority together with those that vote for the tree.
func (n *Node) wanted(r *request, up quorum.Set) bool {
	return r.want.Minus(up).Empty() && r.tree.Contains(r.want) && (n.cfg.TreeOnly || n.withVotes(r.want) >= n.majority)
}

// withVotes counts the members of s and those whose vote for the tree counts now.
func (n *Node) withVotes(s quorum.Set) int {
	for i := range n.peers {
		if n.peers[i].treeUntil > n.now {
			s = s.With(i)
		}
	}
	return s.Len()
}

// choose selects whom to ask (R21): a quorum of members that are up, the own one
// and the nearest first, and as many others as votes for the tree are missing.
// Without a quorum all members are asked. Grants in hand are kept.
func (n *Node) choose(r *request, up quorum.Set) {
	for i := range n.values {
		n.values[i] = n.cost(i)
	}
	want, ok := r.tree.Select(up, n.self, n.values)
	if !ok {
		r.want = quorum.All(len(n.members))
		return
	}
	if !n.cfg.TreeOnly {
		for _, i := range n.byCost() {
			if n.withVotes(want) >= n.majority {
				break
			}
			if up.Has(i) && n.peers[i].treeUntil <= n.now {
				want = want.With(i)
			}
		}
	}
	r.want = want
}

// granted returns until when the grant of member i counts (R17); zero when there
// is none.
func (n *Node) granted(r *request, i int) Instant {
	a := &r.asks[i]
	if a.number == 0 {
		return 0
	}
	if until, broken := n.breakCounts(a, &n.peers[i]); broken {
		return until
	}
	until := n.peers[i].countsUntil(a.inc, a.session)
	if until <= n.now {
		n.fired(17)
	}
	return until
}

// askMissing repeats the Request to every wanted member whose grant is lacking,
// Queued or not, and at once to one whose session or incarnation changed (R16).
func (n *Node) askMissing(r *request, repeat Duration) {
	for i := range r.want.All() {
		p, a := &n.peers[i], &r.asks[i]
		if n.granted(r, i) > n.now || n.mute(p) { // R22: it is asked at once when it is heard again
			continue
		}
		if a.sentInc.IsZero() {
			a.sentInc = p.inc
		}
		if a.sentSession == 0 && a.sentInc == p.inc {
			a.sentSession = p.session
		}
		if r.asked.Has(i) && a.sentInc == p.inc && a.sentSession == p.session && n.now < a.sent.Add(repeat) {
			continue
		}
		if r.asked.Has(i) && (a.sentInc != p.inc || a.sentSession != p.session) {
			n.fired(16)
		}
		r.asked = r.asked.With(i)
		a.sent, a.sentInc, a.sentSession = n.now, p.inc, p.session
		n.breakRepeat(a, breakage.OneRequest)
		n.toMember(p, Message{
			Type: MsgRequest, Lock: r.local.name, ID: RequestID{n.inc, r.id}, RequestTime: r.time,
			Holding: r.state == requestHolding, Label: r.label(),
		})
	}
}

func (r *request) label() string {
	switch {
	case r.local.lease != nil:
		return r.local.lease.label
	case len(r.local.queue) > 0:
		return r.local.queue[0].label
	}
	return ""
}

// kthLargest returns the k-th largest value, 1 <= k <= len(values), and leaves
// values in another order.
func kthLargest(values []int64, k int) int64 {
	for i := range k {
		for j := i + 1; j < len(values); j++ {
			if values[j] > values[i] {
				values[i], values[j] = values[j], values[i]
			}
		}
	}
	return values[k-1]
}

// workHolding checks the deadline and repairs the quorum.
func (n *Node) workHolding(r *request) {
	limit := n.deadline(r)
	until := limit.until()
	// What does not count any more has no deadline: the one that was told last is left.
	if until <= n.now && n.broken(breakage.LossForgiven) && r.told.Add(n.tm.repeat) > n.now {
		n.timers.set(&r.timer, r.told.Add(n.tm.repeat))
		return
	}
	if until <= n.now { // R20
		n.lose(r)
		return
	}
	n.firstLoss = min(n.firstLoss, until)
	n.settleLease(r, until)
	n.tellWaiting(r)
	if !r.local.lease.settling && (until < r.told || until >= r.told.Add(n.tm.tell)) {
		r.told = until
		n.emit(Event{Type: EventDeadline, Call: r.local.lease.id, Lock: r.local.name, Deadline: until})
	}
	all := quorum.All(len(n.members))
	up := n.upSet()
	r.byMajority = r.byMajority || limit.tree <= n.now
	n.updateNeed(r, up)
	late := !n.cfg.TreeOnly && limit.votes < n.now.Add(n.tm.margin)
	switch {
	case r.want == all:
	case r.need, r.local.lease.longHold, late, n.now >= r.heldSince.Add(n.tm.spread):
		r.want = all // R24
		n.fired(24)
	case !r.want.Minus(up).Empty():
		n.choose(r, up) // R24
		n.fired(24)
	}
	n.askMissing(r, n.tm.holderRepeat)
	n.workCommit(r)
	n.scheduleHolder(r, until, limit.votes)
}

func (n *Node) scheduleHolder(r *request, until, votes Instant) {
	next := n.nextAsk(r, n.tm.holderRepeat, until)
	if r.need {
		next = min(next, n.now.Add(n.tm.holderRepeat))
	}
	if r.local.commit.active {
		next = min(next, n.now.Add(n.tm.holderRepeat))
	}
	if r.want != quorum.All(len(n.members)) {
		next = min(next, r.heldSince.Add(n.tm.spread))
		if !n.cfg.TreeOnly {
			next = min(next, max(n.now+1, votes.Add(-n.tm.margin)))
		}
	}
	n.timers.set(&r.timer, next)
}

// nextAsk returns when the first Request must be repeated, however many answers of
// other members come until then, or next when that is earlier.
func (n *Node) nextAsk(r *request, repeat Duration, next Instant) Instant {
	for i := range r.want.All() {
		if n.granted(r, i) <= n.now && !n.mute(&n.peers[i]) {
			next = min(next, r.asks[i].sent.Add(repeat))
		}
	}
	return next
}

func (n *Node) schedule(r *request) {
	next := n.nextAsk(r, n.tm.repeat, n.now.Add(n.tm.repeat))
	if r.below != 0 && r.state == requestWaiting {
		next = min(next, r.below.Add(n.tm.withdraw))
	}
	for _, c := range r.local.queue {
		if c.try && c.tryUntil != 0 {
			next = min(next, c.tryUntil)
		}
	}
	n.timers.set(&r.timer, max(next, n.now+1))
}

// handOver gives the held lock to the next local caller.
func (n *Node) handOver(l *local) {
	c := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.lease, c.since, c.settling = c, n.now, true
	l.commit = commit{}
	for i := 0; i < len(l.queue); {
		if l.queue[i].try { // R26: a local caller holds the lock
			n.failCaller(l.queue[i], FailBusy)
		} else {
			i++
		}
	}
	n.settleLease(l.req, n.deadline(l.req).until())
	n.work(l.req)
}

// settleLease tells the caller that it has the lock. One that holds long is told
// when the deadline is T/2 away, which takes the grants of a majority, or T/8 later:
// with votes alone its command would have to be ended whenever a KeepAlive is late.
func (n *Node) settleLease(r *request, until Instant) {
	c := r.local.lease
	if !c.settling || c.longHold && until < n.now.Add(n.tm.settled) && n.now < c.since.Add(n.tm.settle) {
		return
	}
	c.settling = false
	r.told = until
	n.stats.Acquired++
	n.emit(Event{Type: EventAcquired, Call: c.id, Lock: r.local.name, Deadline: until})
}

// lose ends a lease whose deadline has passed. The lock is lost for good: no
// later answer brings it back (R20).
func (n *Node) lose(r *request) {
	n.fired(20)
	l, loss := r.local, LossExpired
	if !n.enough(r.tree, n.upSet()) {
		loss = LossCutOff
	}
	n.endLease(l, loss)
	n.endRequest(r)
	n.next(l)
}

// endLease ends the lease; a caller that was not told of it yet waits on, as first.
func (n *Node) endLease(l *local, loss Loss) {
	c := l.lease
	l.lease = nil
	if c.settling {
		l.queue = slices.Insert(l.queue, 0, c)
		return
	}
	n.stats.Lost++
	n.emit(Event{Type: EventLost, Call: c.id, Lock: l.name, Loss: loss})
	delete(n.calls, c.id)
}

// next asks anew for the remaining callers, with a new timestamp, or forgets the
// lock.
func (n *Node) next(l *local) {
	if len(l.queue) > 0 {
		n.newRequest(l)
	} else {
		delete(n.locals, l.name)
	}
}

// beginAnew drops all that belongs to this node's former incarnation as a
// requester (R30): what it held is lost, what it waited for is asked anew.
func (n *Node) beginAnew() {
	for i := range n.peers {
		p := &n.peers[i]
		p.session, p.freshUntil, p.treeUntil, p.majorityUntil, p.former, p.awaiting = 0, 0, 0, 0, nil, 0
	}
	if n.self >= 0 {
		n.peers[n.self].inc = n.inc
	}
	var locals []*local
	for _, r := range n.requests {
		locals = append(locals, r.local)
	}
	for _, l := range locals {
		if l.lease != nil {
			n.endLease(l, LossReplaced)
		}
		l.req.asked = quorum.Set{} // a Release would carry the new incarnation
		n.endRequest(l.req)
		n.next(l)
	}
	n.keepAlive()
}
