package node

import (
	"cmp"

	"github.com/treequorum/dmutex/node/internal/breakage"
)

// member is the part of a Node that grants. A client has one that refuses.
type member struct {
	sessions     map[sessionKey]*session
	clients      int               // sessions of nodes that are no members
	incarnations map[string]*known // by node name, while the node has a session here
	locks        map[string]*lockState

	sessionNumber uint64 // highest given
	grantNumber   uint64 // highest given
	quarantined   bool
	endQuarantine quarantineTimer

	voted   Vote // latest vote given
	votedAt Instant
	wishes  int // sessions that ask for majority mode

	floors floors
}

type quarantineTimer struct{ timer }

func (t *quarantineTimer) due(n *Node) {
	if n.quarantined {
		n.quarantined = false
		if !n.broken(breakage.FloorsInQuarantine) {
			n.startFloors()
		}
	}
}

// sessionKey names a requester: a newer incarnation of a node is a different one.
type sessionKey struct {
	name string
	inc  Incarnation
}

// known is the highest incarnation of a node name, and how many sessions it has.
type known struct {
	highest  Incarnation
	sessions int
}

// session is what a member knows of one requester while it hears of it (R10).
type session struct {
	timer
	key     sessionKey
	number  uint64
	sent    Instant // latest send time received, on the requester's clock
	heard   Instant // when, on this clock
	goodbye bool    // over; what still comes is ignored (R15)
	wish    bool    // asks for majority mode
	wishAt  Instant // send time of the KeepAlive that said so
	entries map[string]*entry
	ended   [2]map[string]uint64 // highest ended id by lock; the second is the older half (R3)
	endedAt Instant              // when the halves were last turned
}

// entry is a request at a member, granted or queued.
type entry struct {
	session *session
	id      uint64
	time    Timestamp
	holding bool
	label   string
}

// before orders requests (R2): those of holders that repair their quorum first,
// then by timestamp, then by name.
func (e *entry) before(f *entry) bool {
	if e.holding != f.holding {
		return e.holding
	}
	if c := cmp.Compare(e.time, f.time); c != 0 {
		return c < 0
	}
	if c := cmp.Compare(e.session.key.name, f.session.key.name); c != 0 {
		return c < 0
	}
	return e.session.key.inc.Compare(f.session.key.inc) < 0
}

func (e *entry) requestID() RequestID { return RequestID{e.session.key.inc, e.id} }

func (n *Node) startMember(wall int64) {
	n.sessions = make(map[sessionKey]*session)
	n.incarnations = make(map[string]*known)
	n.locks = make(map[string]*lockState)
	n.startFloorState(wall)
	if n.self < 0 {
		return
	}
	if n.cfg.Standalone {
		n.startFloors()
		return
	}
	n.quarantined = true
	if n.broken(breakage.FloorsInQuarantine) {
		n.startFloors()
	}
	n.endQuarantine.owner = &n.endQuarantine
	n.timers.set(&n.endQuarantine.timer, n.now.Add(n.tm.quarantine))
}

// serve handles a message from a requester.
func (n *Node) serve(m *Message) {
	opens := m.Type == MsgRequest || m.Type == MsgKeepAlive || m.Type == MsgReadFloors
	if n.self < 0 || n.cfg.Standalone && m.From != n.cfg.Name { // R13: it could not know what it granted before
		n.refuse(m, opens, ReasonNotMember)
		return
	}
	if other := n.otherIncarnation(m.From); other.Compare(m.FromIncarnation) > 0 { // R12
		n.fired(12)
		if opens {
			n.refuse(m, opens, ReasonOldIncarnation)
		}
		return
	}
	if !opens && !n.addressed(m) && !n.broken(breakage.FormerIncarnation) { // R11
		n.fired(11)
		return
	}
	s := n.session(m)
	if s == nil {
		n.refuse(m, opens, ReasonTooManySessions)
		return
	}
	if s.goodbye { // R15
		n.fired(15)
		return
	}
	s.sent, s.heard = max(s.sent, m.Sent), n.now
	switch m.Type {
	case MsgKeepAlive:
		n.handleKeepAlive(s, m)
	case MsgRequest:
		n.handleRequest(s, m)
	case MsgYield:
		n.handleYield(s, m)
	case MsgRelease:
		n.handleRelease(s, m)
	case MsgValidateReply:
		n.handleValidateReply(s, m)
	case MsgCommit:
		n.handleCommit(s, m)
	case MsgReadFloors:
		n.reply(s, Message{Type: MsgFloors, Round: m.Round, OK: n.floors.known, Floor: n.floors.highest})
	case MsgGoodbye:
		n.endSession(s)
		s.goodbye = true
		n.timers.set(&s.timer, n.now.Add(n.tm.session))
	case MsgGrant, MsgQueued, MsgInquire, MsgValidate, MsgKeepAliveAck, MsgCommitted, MsgFloors, MsgNotReady, maxMessageType:
	}
}

// addressed reports whether a message is for this incarnation (R11). A sender that
// has heard nothing of this node may still take back what it asked for: ids and
// incarnations of senders are never used again, numbers and tokens start anew.
func (n *Node) addressed(m *Message) bool {
	if m.ToIncarnation.IsZero() {
		return m.Type == MsgRelease || m.Type == MsgGoodbye
	}
	return m.ToIncarnation == n.inc
}

// refuse answers a message for which there is no session.
func (n *Node) refuse(m *Message, opens bool, reason NotReadyReason) {
	if !opens {
		return
	}
	n.send(Message{
		Type: MsgNotReady, To: m.From, ToIncarnation: m.FromIncarnation, Lock: m.Lock, ID: m.ID,
		Reason: reason, Other: n.otherThan(m.From, m.FromIncarnation),
	})
}

// reply sends an answer to the requester of a session, with what all answers
// carry.
func (n *Node) reply(s *session, m Message) {
	m.To, m.ToIncarnation = s.key.name, s.key.inc
	m.Session, m.Echo, m.Vote = s.number, s.sent, n.vote()
	n.send(m)
}

// otherIncarnation returns the highest incarnation of a node that is known.
func (n *Node) otherIncarnation(name string) Incarnation {
	var other Incarnation
	if k := n.incarnations[name]; k != nil {
		other = k.highest
	}
	if i, ok := n.index[name]; ok && n.peers[i].inc.Compare(other) > 0 {
		other = n.peers[i].inc
	}
	return other
}

// otherThan returns the highest known incarnation of a node unless it is inc.
func (n *Node) otherThan(name string, inc Incarnation) Incarnation {
	if other := n.otherIncarnation(name); other != inc {
		return other
	}
	return Incarnation{}
}

// session finds the session of a message's sender, or opens one with a new
// number (R10). It returns nil when there are too many.
func (n *Node) session(m *Message) *session {
	key := sessionKey{m.From, m.FromIncarnation}
	if s := n.sessions[key]; s != nil {
		return s
	}
	k := n.incarnations[key.name]
	if !n.roomFor(key.name, k) { // R32
		n.fired(32)
		return nil
	}
	n.sessionNumber++
	s := &session{key: key, number: n.sessionNumber, heard: n.now}
	s.owner = s
	n.sessions[key] = s
	if k == nil {
		k = &known{}
		n.incarnations[key.name] = k
	}
	k.sessions++
	if _, member := n.index[key.name]; !member {
		n.clients++
	}
	if key.inc.Compare(k.highest) > 0 {
		k.highest = key.inc
	}
	n.timers.set(&s.timer, n.now.Add(n.tm.session))
	return s
}

// maxIncarnations bounds the sessions of one node name: it may be started so often
// within T(1+d).
const maxIncarnations = 8

// roomFor reports whether one more session of that node fits (R32). Clients cannot
// crowd out members: those have their own places.
func (n *Node) roomFor(name string, k *known) bool {
	if k != nil && k.sessions >= maxIncarnations {
		return false
	}
	_, member := n.index[name]
	return member || n.clients < n.limits.Clients
}

// due ends the session when its requester was not heard for T(1+d) (R10).
func (s *session) due(n *Node) {
	if !s.goodbye {
		if until := s.heard.Add(n.tm.session); until > n.now {
			n.timers.set(&s.timer, until)
			return
		}
		n.fired(10)
		n.endSession(s)
	}
	delete(n.sessions, s.key)
	if _, member := n.index[s.key.name]; !member {
		n.clients--
	}
	k := n.incarnations[s.key.name]
	k.sessions--
	if k.sessions == 0 {
		delete(n.incarnations, s.key.name)
	}
}

// endSession drops all that the session stands for.
func (n *Node) endSession(s *session) {
	for _, lock := range sortedKeys(s.entries) {
		n.endEntry(lock, s, s.entries[lock].id)
	}
	s.ended = [2]map[string]uint64{}
	n.setWish(s, false)
}

func (n *Node) handleKeepAlive(s *session, m *Message) {
	if m.Sent >= s.wishAt {
		s.wishAt = m.Sent
		n.setWish(s, m.NeedMajority)
	}
	n.reply(s, Message{Type: MsgKeepAliveAck, Other: n.otherThan(m.From, m.FromIncarnation)})
}

func (n *Node) setWish(s *session, wish bool) {
	if wish == s.wish {
		return
	}
	s.wish = wish
	if wish {
		n.wishes++
	} else {
		n.wishes--
	}
}

// vote returns the vote for an answer that is sent now (R14). The other vote is
// given only when the last one has run out at everybody; until then none, or the
// old one again when the wish is taken back.
func (n *Node) vote() Vote {
	if n.quarantined && !n.broken(breakage.QuarantineVotes) { // R13
		return VoteNone
	}
	wish := VoteTree
	if n.wishes > 0 {
		wish = VoteMajority
	}
	if n.voted != VoteNone && n.voted != wish && n.now < n.votedAt.Add(n.tm.voteSilence) && !n.broken(breakage.NoVoteSilence) {
		n.fired(14)
		return VoteNone
	}
	n.voted, n.votedAt = wish, n.now
	return wish
}
