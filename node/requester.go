package node

import (
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// requester is the part of a Node that asks for locks and holds them.
type requester struct {
	peers     []peer // by member number
	peerTimer peerTimer
	keptAlive Instant // when KeepAlives were last sent
	locals    map[string]*local
	calls     map[CallID]*caller
	requests  []*request // all that wait, hold or are withdrawn
	holding   int        // of these, how many hold
	needing   int        // and how many need votes for the majority (R33)
	lacked    Instant    // when a request last saw no quorum of the tree up
	saidNeed  bool       // what the latest KeepAlives said
	free      []*request // for use again
	bestFirst []int      // scratch of byCost
	values    []int64    // scratch of deadline
	votes     []int64    // scratch of deadline
	stats     Stats
}

type peerTimer struct{ timer }

func (t *peerTimer) due(n *Node) { n.peersDue() }

// local is what this node's callers do with one lock: they wait in a row behind
// one request.
type local struct {
	name   string
	queue  []*caller // waiting, first come first served
	lease  *caller   // has the lock
	req    *request  // nil only in between
	commit commit    // of the lease's token
}

// caller is one call of Lock or TryLock, and its lease.
type caller struct {
	id       CallID
	label    string
	try      bool
	tryUntil Instant
	longHold bool
	watch    bool
	told     Facts   // what EventWaiting last said
	since    Instant // when it got the lock
	settling bool    // has the lock, and is told once it is well held
	local    *local
}

// requestState is where a request stands.
type requestState uint8

const (
	requestWaiting   requestState = iota
	requestHolding                // the lock is held
	requestWithdrawn              // taken back below a majority (R23); the next one keeps its timestamp
)

// request is what this node asks the members for one lock.
type request struct {
	timer
	pos   int // in Node.requests
	local *local
	tree  *quorum.Tree
	state requestState
	id    uint64
	time  Timestamp
	asks  []ask      // by member number
	asked quorum.Set // every member that was ever sent this id
	want  quorum.Set // those whose grants are wanted now

	need       bool    // asks for votes for the majority (R33)
	byMajority bool    // has held under M only, since it last held under T by grants alone
	lacked     Instant // when it last saw no quorum of the tree up
	below      Instant // since when fewer than a majority are up; zero: enough are
	heldSince  Instant
	told       Instant // deadline last told
	others     Instant // since when others are known to wait; zero: none known
	handed     int     // local hand-overs since then
	proposed   uint64  // highest fencing token proposed under this id
}

// ask is what passed between this node and one member about one request.
type ask struct {
	sent        Instant // last Request
	sentInc     Incarnation
	sentSession uint64

	number  uint64 // of the grant in hand; zero: none
	inc     Incarnation
	session uint64
	floor   uint64

	yielded    uint64 // highest number yielded to yieldedInc
	yieldedInc Incarnation

	queued bool // Queued is the member's latest word
	full   bool // the member's queue is full
	owner  string
	holds  bool
	since  Duration
	at     Instant // when Queued came
	ahead  int

	commit memberCommit
}

func (r *request) due(n *Node) { n.work(r) }

func (n *Node) startRequester() {
	n.peers = make([]peer, len(n.members))
	for i, name := range n.members {
		n.peers[i] = peer{name: name, id: i, heard: n.now, roundTrip: n.tm.answer, up: true}
	}
	if n.self >= 0 {
		n.peers[n.self].inc = n.inc
		n.peers[n.self].roundTrip = 0
	}
	n.peerTimer.owner = &n.peerTimer
	n.locals = make(map[string]*local)
	n.calls = make(map[CallID]*caller)
	n.bestFirst = make([]int, len(n.members))
	n.values = make([]int64, len(n.members))
	n.votes = make([]int64, len(n.members))
	n.keepAlive()
	n.timers.set(&n.peerTimer.timer, n.now.Add(n.tm.keepIdle))
}

// answer handles a message from a member.
func (n *Node) answer(m *Message) {
	i, ok := n.index[m.From]
	if !ok || m.ToIncarnation != n.inc && !n.broken(breakage.FormerIncarnation) { // R11
		return
	}
	if !m.Other.IsZero() {
		n.raiseIncarnation(m.Other)
		if m.ToIncarnation != n.inc {
			return
		}
	}
	p := &n.peers[i]
	if !n.answered(p, m) {
		return
	}
	switch m.Type {
	case MsgGrant:
		n.handleGrant(p, m)
	case MsgQueued:
		n.handleQueued(p, m)
	case MsgInquire:
		n.handleInquire(p, m)
	case MsgValidate:
		n.handleValidate(p, m)
	case MsgCommitted:
		n.handleCommitted(p, m)
	case MsgFloors:
		n.handleFloors(p, m)
	case MsgNotReady:
		n.handleNotReady(p, m)
	case MsgKeepAliveAck:
	case MsgRequest, MsgYield, MsgRelease, MsgValidateReply, MsgKeepAlive, MsgCommit, MsgReadFloors, MsgGoodbye, maxMessageType:
	}
}

// current returns the request that the message is about, if it is still made.
func (n *Node) current(m *Message) *request {
	l := n.locals[m.Lock]
	if l == nil || l.req == nil || l.req.state == requestWithdrawn || m.ID != (RequestID{n.inc, l.req.id}) {
		return nil
	}
	return l.req
}

// currentOrRelease is current; what a member says of a request that is no longer
// made is answered with its Release, which may have been lost.
func (n *Node) currentOrRelease(p *peer, m *Message) *request {
	r := n.current(m)
	if r == nil {
		n.toMember(p, Message{Type: MsgRelease, Lock: m.Lock, ID: m.ID})
	}
	return r
}

func (n *Node) handleGrant(p *peer, m *Message) {
	r := n.currentOrRelease(p, m)
	if r == nil {
		return
	}
	a := &r.asks[p.id]
	if n.yieldedAgain(p, a, m) || a.inc == m.FromIncarnation && m.Number < a.number {
		return
	}
	a.number, a.inc, a.session, a.floor = m.Number, m.FromIncarnation, m.Session, m.Floor
	a.queued, a.full = false, false
	n.work(r)
}

// yieldedAgain repeats a Yield when the member names a number that was yielded
// already: the Yield may have been lost, and a grant that was given up must never
// count again (R18).
func (n *Node) yieldedAgain(p *peer, a *ask, m *Message) bool {
	if a.yieldedInc != m.FromIncarnation || m.Number > a.yielded {
		return false
	}
	if !n.broken(breakage.YieldNotRepeated) {
		n.yield(p, m, a.yielded)
	}
	return true
}

func (n *Node) yield(p *peer, m *Message, number uint64) {
	n.toMember(p, Message{Type: MsgYield, ToIncarnation: m.FromIncarnation, Lock: m.Lock, ID: m.ID, Number: number})
}

func (n *Node) handleQueued(p *peer, m *Message) {
	r := n.currentOrRelease(p, m)
	if r == nil {
		return
	}
	a := &r.asks[p.id]
	a.queued, a.full, a.owner, a.holds = true, false, m.Owner, m.OwnerHolds
	a.since, a.at, a.ahead = m.Since, n.now, int(m.Ahead)
	n.breakRepeat(a, breakage.QueuedIsAnswer)
	if r.state == requestWaiting {
		n.work(r)
	}
}

// handleInquire gives a grant back while the lock is not held (R18): the lowest
// timestamp always gets through, so there is neither deadlock nor starvation.
func (n *Node) handleInquire(p *peer, m *Message) {
	r := n.currentOrRelease(p, m)
	switch {
	case r == nil:
	case r.state == requestHolding:
		n.othersWait(r)
	default:
		a := &r.asks[p.id]
		if a.yieldedInc != m.FromIncarnation {
			a.yielded, a.yieldedInc = 0, m.FromIncarnation
		}
		if !n.breakYield(a, m) {
			a.yielded = max(a.yielded, m.Number)
			if a.inc == m.FromIncarnation && a.number <= m.Number {
				a.number = 0
			}
		}
		n.fired(18)
		n.yield(p, m, m.Number)
		n.work(r)
	}
}

func (n *Node) handleValidate(p *peer, m *Message) {
	r := n.current(m)
	state := StateOver
	if r != nil {
		if n.yieldedAgain(p, &r.asks[p.id], m) {
			return
		}
		state = StateWaiting
		if r.state == requestHolding {
			state = StateHolding
			n.othersWait(r)
		}
	}
	n.toMember(p, Message{Type: MsgValidateReply, Lock: m.Lock, ID: m.ID, Number: m.Number, State: state})
}

func (n *Node) handleNotReady(p *peer, m *Message) {
	if m.Reason != ReasonQueueFull {
		return // answered has noted it
	}
	if r := n.current(m); r != nil && r.state == requestWaiting {
		r.asks[p.id].full = true
		n.work(r)
	}
}

// othersWait starts the bound on local hand-overs (R25).
func (n *Node) othersWait(r *request) {
	if r.others == 0 {
		r.others, r.handed = n.now, 0
	}
}

// reviewRequests looks at all requests again.
func (n *Node) reviewRequests() {
	// work may end a request, which moves the last one into its place.
	for i := len(n.requests); i > 0; {
		i--
		if i < len(n.requests) {
			n.work(n.requests[i])
		}
	}
}

// newRequest starts to ask for the lock of l, with a new timestamp.
func (n *Node) newRequest(l *local) {
	var r *request
	if k := len(n.free); k > 0 {
		r, n.free = n.free[k-1], n.free[:k-1]
	} else {
		r = &request{asks: make([]ask, len(n.members))}
	}
	clear(r.asks)
	*r = request{asks: r.asks, local: l, tree: n.tree(l.name), time: n.stamp(), id: n.nextID(), pos: len(n.requests)}
	r.owner = r
	l.req = r
	n.requests = append(n.requests, r)
	if n.now >= n.keptAlive.Add(n.tm.keepBusy) {
		n.keepAlive()
	}
	n.timers.setEarlier(&n.peerTimer.timer, n.keptAlive.Add(n.tm.keepBusy))
	n.work(r)
}

func (n *Node) nextID() uint64 {
	n.counter++
	return n.counter
}

// endRequest ends the request for good: Release to all that were ever asked,
// those substituted away too. It is not repeated; Validate or the end of the
// session mends a lost one.
func (n *Node) endRequest(r *request) {
	n.releaseAll(r)
	n.timers.stop(&r.timer)
	n.setNeed(r, false)
	if r.state == requestHolding {
		n.holding--
	}
	last := len(n.requests) - 1
	n.requests[r.pos] = n.requests[last]
	n.requests[r.pos].pos = r.pos
	n.requests[last] = nil
	n.requests = n.requests[:last]
	r.local.req = nil
	r.local = nil
	if len(n.free) < maxFree {
		n.free = append(n.free, r)
	}
}

// maxFree bounds the requests that are kept for use again.
const maxFree = 1024

func (n *Node) releaseAll(r *request) {
	for i := range r.asked.All() {
		if n.broken(breakage.NoReleaseOfFormer) && !r.want.Has(i) {
			continue
		}
		n.toMember(&n.peers[i], Message{Type: MsgRelease, Lock: r.local.name, ID: RequestID{n.inc, r.id}})
	}
	r.asked = quorum.Set{}
}

// hold makes the request a holder and the first caller its lease.
func (n *Node) hold(r *request) {
	r.state, r.heldSince = requestHolding, n.now
	n.holding++
	n.timers.setEarlier(&n.peerTimer.timer, n.keptAlive.Add(n.keepEvery()))
	n.handOver(r.local)
}

// byCost returns all members, those with the shortest round trip first. The
// result is valid until the next call.
func (n *Node) byCost() []int {
	for i := range n.bestFirst {
		n.bestFirst[i] = i
	}
	slices.SortStableFunc(n.bestFirst, func(a, b int) int {
		switch ca, cb := n.cost(a), n.cost(b); {
		case ca < cb:
			return -1
		case ca > cb:
			return 1
		}
		return 0
	})
	return n.bestFirst
}
