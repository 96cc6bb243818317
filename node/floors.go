package node

import (
	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// floors are the fencing tokens that a member has taken (section 10), by lock.
// One base floor, at or above every one that was dropped, counts for all locks
// that are not listed.
type floors struct {
	known   bool // false until read from the others after a start (R28)
	base    uint64
	highest uint64
	byLock  map[string]floor
	order   []string // listed locks, oldest first
	oldest  int      // where order starts

	round   uint64 // of the current attempt to read
	answers quorum.Set
	knowing quorum.Set
	timer   floorsTimer
}

type floor struct {
	token uint64
	from  string
	id    RequestID
}

type floorsTimer struct{ timer }

func (t *floorsTimer) due(n *Node) { n.readFloors() }

// of returns the floor of a lock.
func (f *floors) of(lock string) uint64 { return max(f.base, f.byLock[lock].token) }

// startFloorState starts the floors at the wall clock in microseconds: with it
// alone tokens rise even when all members have lost their memory, as long as
// clocks are right.
func (n *Node) startFloorState(wall int64) {
	micros := uint64(max(wall, 0) / 1000)
	n.floors = floors{base: micros, highest: micros, byLock: make(map[string]floor)}
	n.floors.timer.owner = &n.floors.timer
}

// startFloors begins to read the floors, after the quarantine and not before:
// until then a token may still be fixed that counts on the former incarnation.
func (n *Node) startFloors() {
	n.floors.round++
	n.floors.known = len(n.members) == 1 || n.broken(breakage.FloorsNotRead)
	n.readFloors()
}

// readFloors asks all other members, each T/4, until enough have answered. One
// that does not know its own floors may know them later, and is asked again.
func (n *Node) readFloors() {
	if n.floors.known {
		return
	}
	for i := range n.peers {
		if i != n.self && !n.floors.knowing.Has(i) {
			n.toMember(&n.peers[i], Message{Type: MsgReadFloors, Round: n.floors.round})
		}
	}
	n.timers.set(&n.floors.timer.timer, n.now.Add(n.tm.repeat))
}

// handleFloors takes a floor read (R28). It is enough to hear n - majority + 1
// members that know theirs, which meet every majority that fixed a token, or all.
func (n *Node) handleFloors(p *peer, m *Message) {
	f := &n.floors
	if f.known || m.Round != f.round || f.round == 0 {
		return
	}
	f.base, f.highest = max(f.base, m.Floor), max(f.highest, m.Floor)
	f.answers = f.answers.With(p.id)
	if m.OK {
		f.knowing = f.knowing.With(p.id)
	}
	others := len(n.members) - 1
	enough := len(n.members) - n.majority + 1
	if n.broken(breakage.FloorsOfOneFewer) {
		enough--
	}
	if f.knowing.Len() >= enough || f.answers.Len() == others {
		f.known = true
		n.fired(28)
		n.timers.stop(&f.timer.timer)
	}
}

// handleCommit takes a token above the floor, or the same one again from the same
// id (R27).
func (n *Node) handleCommit(s *session, m *Message) {
	if n.quarantined {
		n.notReady(s, m, ReasonQuarantined)
		return
	}
	answer := Message{Type: MsgCommitted, Lock: m.Lock, ID: m.ID, Token: m.Token}
	if n.floors.known {
		base := n.floors.base
		answer.OK = n.floors.take(m.Lock, floor{m.Token, m.From, m.ID}, n.limits.Floors)
		answer.Floor = n.floors.of(m.Lock)
		if n.floors.base > base { // R32: one had to be dropped
			n.fired(32)
		}
	}
	n.reply(s, answer)
}

// take raises the floor of a lock. It reports whether the token was taken.
func (f *floors) take(lock string, want floor, limit int) bool {
	if want.token <= f.of(lock) {
		return f.byLock[lock] == want
	}
	if _, listed := f.byLock[lock]; !listed {
		if len(f.byLock) >= limit {
			f.dropOldest()
		}
		f.order = append(f.order, lock)
	}
	f.byLock[lock] = want
	f.highest = max(f.highest, want.token)
	return true
}

// dropOldest forgets the lock that was listed first; the base floor covers it.
func (f *floors) dropOldest() {
	lock := f.order[f.oldest]
	f.order[f.oldest] = ""
	f.oldest++
	f.base = max(f.base, f.byLock[lock].token)
	delete(f.byLock, lock)
	if f.oldest > len(f.order)/2 {
		f.order, f.oldest = append([]string(nil), f.order[f.oldest:]...), 0
	}
}
