package node

import (
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
)

// lockState is what a member knows of one lock.
type lockState struct {
	timer
	name      string
	grant     *entry // has this member's consent (R1)
	number    uint64 // of the grant
	since     Instant
	holds     bool    // Validate said that the owner holds
	validated Instant // last Validate of this grant; zero: none
	inquired  Instant // last Inquire of this grant; zero: none
	queue     []*entry
}

func (n *Node) handleRequest(s *session, m *Message) {
	switch {
	case n.closed:
		n.notReady(s, m, ReasonShuttingDown)
		return
	case n.quarantined && !(m.Holding && n.broken(breakage.QuarantineHolding)): // R13
		n.fired(13)
		n.notReady(s, m, ReasonQuarantined)
		return
	}
	e := s.entries[m.Lock]
	if m.ID.Incarnation != s.key.inc || m.ID.Counter <= s.endedID(m.Lock) || e != nil && m.ID.Counter < e.id { // R3
		n.fired(3)
		return
	}
	l := n.lockState(m.Lock)
	switch {
	case e != nil && e.id == m.ID.Counter && l.grant == e: // R4
		n.fired(4)
		if m.Holding {
			e.holding, l.holds = true, true
		}
		n.sendGrant(l)
		return
	case e != nil && e.id == m.ID.Counter: // R4
		n.fired(4)
		n.promote(l, e, m.Holding)
	default:
		if e != nil { // R5
			n.fired(5)
			l.takeOut(e)
		}
		if l == nil || l.grant != nil && len(l.queue) >= n.limits.Queue { // R32
			n.fired(32)
			n.notReady(s, m, ReasonQueueFull)
			return
		}
		e = &entry{session: s, id: m.ID.Counter, time: m.RequestTime, holding: m.Holding, label: m.Label}
		s.add(m.Lock, e)
		l.insert(e)
		if l.queue[len(l.queue)-1] != e { // R2
			n.fired(2)
		}
		n.breakGrant(l)
		if l.grant == nil {
			n.grantHead(l)
		} else {
			n.validateSoon(l)
		}
	}
	if l.grant != e {
		n.sendQueued(l, e)
		n.inquire(l, e)
	}
}

func (n *Node) notReady(s *session, m *Message, reason NotReadyReason) {
	n.reply(s, Message{Type: MsgNotReady, Lock: m.Lock, ID: m.ID, Reason: reason})
}

// lockState returns the state of a lock, made if there is none; nil when there
// are too many.
func (n *Node) lockState(name string) *lockState {
	l := n.locks[name]
	if l == nil {
		if len(n.locks) >= n.limits.Locks { // R32
			return nil
		}
		l = &lockState{name: name}
		l.owner = l
		n.locks[name] = l
	}
	return l
}

func (n *Node) forgetLock(l *lockState) {
	if l.grant == nil && len(l.queue) == 0 {
		n.timers.stop(&l.timer)
		delete(n.locks, l.name)
	}
}

func (l *lockState) insert(e *entry) {
	i, _ := slices.BinarySearchFunc(l.queue, e, func(a, b *entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	l.queue = slices.Insert(l.queue, i, e)
}

// promote moves a queued request that has become a holder's before all others.
func (n *Node) promote(l *lockState, e *entry, holding bool) {
	if !holding || e.holding {
		return
	}
	i := slices.Index(l.queue, e)
	l.queue = slices.Delete(l.queue, i, i+1)
	e.holding = true
	l.insert(e)
}

// grantHead gives the consent to the first in the queue, under a new number (R1).
func (n *Node) grantHead(l *lockState) {
	if l.grant != nil {
		return
	}
	if len(l.queue) == 0 {
		n.forgetLock(l)
		return
	}
	l.grant = l.queue[0] // before Delete clears its place
	l.queue = slices.Delete(l.queue, 0, 1)
	n.grantNumber++
	n.fired(1)
	l.number, l.since, l.holds, l.validated, l.inquired = n.grantNumber, n.now, l.grant.holding, 0, 0
	n.sendGrant(l)
	if len(l.queue) > 0 {
		n.timers.set(&l.timer, n.now.Add(n.tm.repeat))
	} else {
		n.timers.stop(&l.timer)
	}
}

func (n *Node) sendGrant(l *lockState) {
	n.reply(l.grant.session, Message{
		Type: MsgGrant, Lock: l.name, ID: l.grant.requestID(), Number: l.number, Floor: n.floors.of(l.name),
	})
}

func (n *Node) sendQueued(l *lockState, e *entry) {
	n.reply(e.session, Message{
		Type: MsgQueued, Lock: l.name, ID: e.requestID(), Ahead: uint32(slices.Index(l.queue, e) + 1),
		Owner: l.grant.session.key.name, OwnerHolds: l.holds, Since: n.now.Sub(l.since),
	})
}

// inquire asks for the grant back when e stands before it (R6).
func (n *Node) inquire(l *lockState, e *entry) {
	if n.broken(breakage.NoInquire) || !e.before(l.grant) || l.inquired != 0 && n.now < l.inquired.Add(n.tm.repeat) {
		return
	}
	l.inquired = n.now
	n.fired(6)
	n.reply(l.grant.session, Message{Type: MsgInquire, Lock: l.name, ID: l.grant.requestID(), Number: l.number})
}

// validateSoon asks the owner of a grant whether it still wants it when somebody
// comes to wait behind it, and each T/4 while somebody does (R9). So a grant whose
// Release was lost is found by the first who waits, and the owner learns that
// others wait.
func (n *Node) validateSoon(l *lockState) {
	if l.validated == 0 || n.now >= l.validated.Add(n.tm.repeat) {
		n.validate(l)
	}
	if l.pos == 0 {
		n.timers.set(&l.timer, n.now.Add(n.tm.repeat))
	}
}

func (n *Node) validate(l *lockState) {
	l.validated = n.now
	n.fired(9)
	n.reply(l.grant.session, Message{Type: MsgValidate, Lock: l.name, ID: l.grant.requestID(), Number: l.number})
}

// due repeats Validate and Inquire while somebody waits.
func (l *lockState) due(n *Node) {
	if l.grant == nil || len(l.queue) == 0 || n.breakSilence(l) {
		return
	}
	n.validate(l)
	n.inquire(l, l.queue[0])
	n.timers.set(&l.timer, n.now.Add(n.tm.repeat))
}

// handleYield takes a grant back and queues its request again. Only the number
// of the current grant counts: a late Yield is harmless (R7).
func (n *Node) handleYield(s *session, m *Message) {
	l := n.locks[m.Lock]
	if l == nil || l.grant == nil || l.grant.session != s || l.grant.requestID() != m.ID ||
		l.number != m.Number && !n.broken(breakage.NoYieldNumbers) {
		return
	}
	n.fired(7)
	l.insert(l.grant)
	l.grant = nil
	n.grantHead(l)
}

// handleRelease ends the id for ever, whatever its grant's number (R8). A Request
// that comes after its own Release must find it ended.
func (n *Node) handleRelease(s *session, m *Message) {
	if m.ID.Incarnation != s.key.inc {
		return
	}
	n.fired(8)
	s.end(n, m.Lock, m.ID.Counter)
	if e := s.entries[m.Lock]; e != nil && (e.id == m.ID.Counter || n.broken(breakage.ReleaseEndsAny)) {
		n.endEntry(m.Lock, s, e.id)
	}
}

// handleValidateReply: "no longer interested" ends the id. Silence does not; only
// the end of the session does (R9).
func (n *Node) handleValidateReply(s *session, m *Message) {
	l, e := n.locks[m.Lock], s.entries[m.Lock]
	if l == nil || e == nil || e.requestID() != m.ID {
		return
	}
	switch m.State {
	case StateOver:
		s.end(n, m.Lock, e.id)
		n.endEntry(m.Lock, s, e.id)
	case StateHolding:
		l.holds = l.holds || l.grant == e && l.number == m.Number
	case StateWaiting:
	}
}

// endEntry takes a request out; when it was granted, the next one is.
func (n *Node) endEntry(lock string, s *session, id uint64) {
	e := s.entries[lock]
	if e == nil || e.id != id {
		return
	}
	l := n.locks[lock]
	l.takeOut(e)
	n.grantHead(l)
	if len(l.queue) == 0 {
		n.timers.stop(&l.timer)
	}
}

// takeOut removes a request, granted or queued, and grants nothing yet.
func (l *lockState) takeOut(e *entry) {
	delete(e.session.entries, l.name)
	if l.grant == e {
		l.grant = nil
		return
	}
	i := slices.Index(l.queue, e)
	l.queue = slices.Delete(l.queue, i, i+1)
}

func (s *session) add(lock string, e *entry) {
	if s.entries == nil {
		s.entries = make(map[string]*entry)
	}
	s.entries[lock] = e
}

// endedID returns the highest id of this session's requester that is over.
func (s *session) endedID(lock string) uint64 { return max(s.ended[0][lock], s.ended[1][lock]) }

// end remembers an ended id (R3), for at least 2T(1+d) or until many others have
// ended. It would be safe to forget it at once: a Request that comes later than
// its Release is granted and then given back by its sender.
func (s *session) end(n *Node, lock string, id uint64) {
	if s.ended[0] == nil || len(s.ended[0]) >= maxEnded || n.now >= s.endedAt.Add(n.tm.forget) {
		s.ended[0], s.ended[1] = make(map[string]uint64), s.ended[0]
		s.endedAt = n.now
	}
	s.ended[0][lock] = max(id, s.endedID(lock))
}

// maxEnded bounds the ended ids that a session remembers, in each half.
const maxEnded = 512

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
