package node

import (
	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// peer is a member as this node, in its role as requester, sees it.
type peer struct {
	name string
	id   int

	inc           Incarnation // the highest heard of
	session       uint64      // the highest of that incarnation
	freshUntil    Instant     // grants of that incarnation count until then (R17)
	former        []formerPeer
	treeUntil     Instant // the member's vote for the tree counts until then (R14)
	majorityUntil Instant // its vote for the majority does (R14)
	vote          Vote    // its latest

	heard     Instant // last answer, or when this node began to listen
	sent      Instant // last message that asks for an answer
	awaiting  Instant // first message that was not answered; zero: none
	roundTrip Duration
	measured  bool

	failed     bool // did not answer in time, or refused the connection
	notReady   bool // said NotReady
	starting   bool // because it is quarantined
	gossipDead bool
	differs    bool // runs with another configuration (R29)
	up         bool // what requests were last told
}

// formerPeer is what still counts of an incarnation that is over: what it
// granted stays valid until it is stale, not less and not longer (section 7).
type formerPeer struct {
	inc        Incarnation
	session    uint64
	freshUntil Instant
}

// maxFormer bounds the former incarnations that are kept of one member. Only
// those older than a quarantine can have granted anything, so one is enough in
// practice.
const maxFormer = 4

// countsUntil returns until when a grant of that incarnation and session counts
// (R17); zero when it does not.
func (p *peer) countsUntil(inc Incarnation, session uint64) Instant {
	if inc == p.inc {
		if session != p.session {
			return 0
		}
		return p.freshUntil
	}
	for _, f := range p.former {
		if f.inc == inc && f.session == session {
			return f.freshUntil
		}
	}
	return 0
}

// isUp says whether the member can be asked (R21).
func (n *Node) isUp(p *peer) bool {
	return !p.failed && !p.notReady && !p.gossipDead && !p.differs && !n.mute(p)
}

// mute reports whether nothing but KeepAlives may be said to the member (R22):
// it was not heard for T.
func (n *Node) mute(p *peer) bool {
	return p.id != n.self && n.now >= p.heard.Add(n.tm.ttl) && !n.broken(breakage.NoSilence)
}

// silent reports whether nothing at all may be said to the member (R22). One that
// hears this node but is not heard must get the chance to end the session. Silence
// and T of KeepAlives take turns: a message that was under way for long can renew
// the session in the middle of one silence, and KeepAlives would do so for ever.
func (n *Node) silent(p *peer) bool {
	return n.mute(p) && n.now.Sub(p.heard.Add(n.tm.ttl))%(n.tm.silence+n.tm.ttl) < n.tm.silence
}

// answerBy returns when the member's answer to the first unanswered message is
// late (R21).
func (n *Node) answerBy(p *peer) Instant {
	return p.awaiting.Add(max(p.roundTrip, n.tm.answer))
}

// upSet returns the members that count as up.
func (n *Node) upSet() quorum.Set {
	var up quorum.Set
	for i := range n.peers {
		if n.isUp(&n.peers[i]) {
			up = up.With(i)
		}
	}
	return up
}

// updateUp notes whether the member still counts as up; a change makes all
// requests look again at whom they ask.
func (n *Node) updateUp(p *peer) {
	up := n.isUp(p)
	if up == p.up {
		return
	}
	p.up = up
	n.review = true
	if p.id == n.self {
		return
	}
	switch {
	case up:
		n.emit(Event{Type: EventPeerUp, Peer: p.name})
	case p.starting:
		n.emit(Event{Type: EventPeerStarting, Peer: p.name})
	default:
		n.emit(Event{Type: EventPeerDown, Peer: p.name})
	}
}

// toMember sends a message as requester; it is dropped while the member must be
// left in silence (R22). Every message carries its send time, so any exchange
// renews the session.
func (n *Node) toMember(p *peer, m Message) {
	if n.mute(p) && (m.Type != MsgKeepAlive || n.silent(p)) {
		n.fired(22)
		return
	}
	m.To, m.Sent = p.name, n.now
	if m.ToIncarnation.IsZero() {
		m.ToIncarnation = p.inc
	}
	if asksForAnswer(m.Type) {
		p.sent = n.now
		if p.awaiting == 0 {
			p.awaiting = n.now
			n.timers.setEarlier(&n.peerTimer.timer, n.answerBy(p))
		}
	}
	n.send(m)
}

func asksForAnswer(t MessageType) bool {
	return t == MsgRequest || t == MsgKeepAlive || t == MsgCommit || t == MsgReadFloors
}

// heardIncarnation notes the incarnation of a member that sent any message. A
// new one ends the silence: it has nothing of the former one's sessions.
func (n *Node) heardIncarnation(i int, inc Incarnation) {
	p := &n.peers[i]
	if inc.Compare(p.inc) <= 0 {
		return
	}
	if !p.inc.IsZero() && p.freshUntil > n.now {
		p.former = append(p.former, formerPeer{p.inc, p.session, p.freshUntil})
		if len(p.former) > maxFormer {
			p.former = p.former[1:]
		}
	}
	p.inc, p.session, p.freshUntil = inc, 0, 0
	p.heard, p.awaiting = n.now, 0
	p.failed, p.notReady, p.starting, p.gossipDead = false, false, false, false
	n.review = true
	n.updateUp(p)
}

// answered takes from an answer what all answers carry. It reports whether the
// message is to be handled further.
func (n *Node) answered(p *peer, m *Message) bool {
	if m.FromIncarnation != p.inc && !n.broken(breakage.FormerIncarnation) { // R11: of a former incarnation
		n.fired(11)
		return false
	}
	if m.Session != 0 {
		if m.Session < p.session && !n.broken(breakage.NoSessionNumbers) { // R11: of a former session
			n.fired(11)
			return false
		}
		if m.Session > p.session {
			n.review = n.review || p.session != 0
			p.session = m.Session
		}
		n.echoed(p, m)
	}
	p.heard = n.now
	switch {
	case m.Type == MsgNotReady && m.Reason != ReasonQueueFull && m.Reason != ReasonOldIncarnation:
		p.notReady, p.starting = true, m.Reason == ReasonQuarantined
	case m.Type == MsgGrant || m.Type == MsgQueued || m.Vote != VoteNone:
		// A quarantined member answers KeepAlives too; only a vote or an answer
		// to a request shows that it takes part again.
		p.notReady, p.starting = false, false
	}
	p.gossipDead = false
	n.updateUp(p)
	return true
}

// echoed moves on until when grants (R17) and votes (R14) count. The times run
// from when the echoed message was sent, not from when the answer came.
func (n *Node) echoed(p *peer, m *Message) {
	if m.Echo <= 0 || m.Echo > n.now {
		return
	}
	p.freshUntil = max(p.freshUntil, m.Echo.Add(n.tm.fresh))
	if n.broken(breakage.FreshFromReceipt) {
		p.freshUntil = n.now.Add(n.tm.fresh)
	}
	p.vote = m.Vote
	switch m.Vote { // other answers never move these times
	case VoteTree:
		p.treeUntil = max(p.treeUntil, m.Echo.Add(n.tm.vote))
	case VoteMajority:
		p.majorityUntil = max(p.majorityUntil, m.Echo.Add(n.tm.vote))
	case VoteNone:
	}
	if m.Type == MsgKeepAliveAck {
		n.measure(p, n.now.Sub(m.Echo))
	}
	if p.awaiting != 0 && m.Echo >= p.awaiting {
		p.awaiting = 0
		if p.sent > m.Echo {
			p.awaiting = p.sent
			n.timers.setEarlier(&n.peerTimer.timer, n.answerBy(p))
		}
		p.failed = false
	}
	if p.awaiting == 0 {
		p.failed = false
	}
}

// measure keeps the round trip: at once when it grows, slowly when it shrinks,
// so that one that varies is not taken for a failure each time.
func (n *Node) measure(p *peer, sample Duration) {
	if !p.measured || sample > p.roundTrip {
		p.roundTrip, p.measured = sample, true
		return
	}
	p.roundTrip -= (p.roundTrip - sample) / 8
}

// cost is the measured round trip to a member, for the choice of a quorum.
func (n *Node) cost(i int) int64 {
	if i == n.self {
		return 0
	}
	return int64(n.peers[i].roundTrip)
}

// peersDue finds members that do not answer or that must be left in silence, and
// sends the KeepAlives.
func (n *Node) peersDue() {
	every := n.keepEvery()
	if n.now >= n.keptAlive.Add(every) {
		n.keepAlive()
	}
	next := n.keptAlive.Add(every)
	for i := range n.peers {
		p := &n.peers[i]
		for len(p.former) > 0 && p.former[0].freshUntil <= n.now {
			p.former = p.former[1:]
		}
		if p.awaiting != 0 && !p.failed {
			if by := n.answerBy(p); n.now >= by {
				p.failed = true // R21
				n.fired(21)
			} else {
				next = min(next, by)
			}
		}
		n.updateUp(p)
	}
	n.timers.setEarlier(&n.peerTimer.timer, next)
}

// keepEvery is the time between KeepAlives: shorter while this node waits or
// holds.
func (n *Node) keepEvery() Duration {
	switch {
	case n.holding > 0 && n.saidNeed:
		return n.tm.keepMajority
	case len(n.requests) > 0:
		return n.tm.keepBusy
	}
	return n.tm.keepIdle
}

func (n *Node) keepAlive() {
	n.keptAlive = n.now
	if n.closed || n.stopped { // R15: it would open a new session
		return
	}
	n.saidNeed = n.needsMajority()
	for i := range n.peers {
		n.toMember(&n.peers[i], Message{Type: MsgKeepAlive, NeedMajority: n.saidNeed})
	}
}

// PeerRefused is a hint of the transport: the connection to name was refused.
func (n *Node) PeerRefused(now Instant, name string) {
	n.hint(now, name, func(p *peer) { p.failed = true })
}

// PeerDead is a hint of gossip: name does not answer others either.
func (n *Node) PeerDead(now Instant, name string) {
	n.hint(now, name, func(p *peer) { p.gossipDead = true })
}

// PeerAlive is a hint of gossip: name is there (again).
func (n *Node) PeerAlive(now Instant, name string) {
	n.hint(now, name, func(p *peer) { p.gossipDead = false })
}

// PeerDiffers says that name runs with another configuration (R29).
func (n *Node) PeerDiffers(now Instant, name string) {
	n.hint(now, name, n.markDiffers)
}

func (n *Node) markDiffers(p *peer) {
	if !p.differs {
		p.differs = true
		n.review = true
		n.emit(Event{Type: EventPeerDiffers, Peer: p.name})
		n.updateUp(p)
	}
}

func (n *Node) hint(now Instant, name string, change func(*peer)) {
	n.begin(now)
	if i, ok := n.index[name]; ok && i != n.self && !n.stopped {
		change(&n.peers[i])
		n.updateUp(&n.peers[i])
	}
	n.finish()
}

func (n *Node) sameFingerprint(i int) {
	if p := &n.peers[i]; p.differs {
		p.differs = false
		n.review = true
		n.updateUp(p)
	}
}
