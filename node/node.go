package node

import (
	"math"
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// Node is the protocol of one node: a requester, and a member unless its name is
// not among the members. It does no I/O, reads no clock and starts nothing: its
// driver calls it with the time, sends what Take returns, and calls Tick when
// Wake says so. A Node is not safe for concurrent use.
type Node struct {
	cfg         Config
	tm          timing
	limits      Limits
	fingerprint uint64
	members     []string // sorted; the index is the member's number
	index       map[string]int
	self        int // own number, -1 for a client
	majority    int
	trees       []*quorum.Tree // by rotation, made when first needed

	inc     Incarnation
	random  uint64
	started Instant
	now     Instant
	wall    int64 // wall clock minus now
	clock   Timestamp
	counter uint64 // of request ids
	closed  bool
	stopped bool // replaced

	out    Output
	inbox  []Message // messages to itself, handled in the same step
	timers timers
	// firstLoss is not after the deadline of anything held. A deadline moves back only
	// in a step that looks at its request.
	firstLoss Instant
	review    bool // a member's state changed: look at all requests again

	requester
	member
}

// New returns a node that starts at now; wall is the wall clock in nanoseconds.
// The Config is copied.
func New(cfg Config, now Instant, wall int64) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	sorted := slices.Clone(cfg.Members)
	slices.Sort(sorted)
	n := &Node{
		cfg: cfg, tm: newTiming(cfg.LeaseTTL, cfg.Drift), limits: cfg.Limits.orDefault(),
		fingerprint: cfg.fingerprint(sorted), members: sorted, index: make(map[string]int, len(sorted)), self: -1,
		majority: quorum.Majority(len(sorted)), trees: make([]*quorum.Tree, len(sorted)),
		inc: cfg.Incarnation, random: cfg.Seed, started: now, now: now, wall: wall - int64(now),
	}
	n.tm.breakTiming(cfg.Breakage)
	n.cfg.Members = sorted
	for i, name := range sorted {
		n.index[name] = i
		if name == cfg.Name {
			n.self = i
		}
	}
	n.startRequester()
	n.startMember(wall)
	n.finish()
	return n, nil
}

// Step handles a message that arrived.
func (n *Node) Step(now Instant, m Message) {
	if n.broken(breakage.InputBeforeTime) {
		n.now = max(n.now, now)
		n.receive(&m)
	}
	n.begin(now)
	if !n.broken(breakage.InputBeforeTime) {
		n.receive(&m)
	}
	n.finish()
}

// Tick does what is due.
func (n *Node) Tick(now Instant) {
	n.begin(now)
	n.finish()
}

// SetWall tells the wall clock, which places timestamps and the first floor and
// nothing else. Call it now and then.
func (n *Node) SetWall(now Instant, wall int64) {
	n.begin(now)
	n.wall = wall - int64(n.now)
	n.finish()
}

// Take returns what the calls since the last Take left to send and to tell.
func (n *Node) Take() Output {
	out := n.out
	// The arrays are used again by the next call, which is why the result is
	// valid only until then.
	n.out = Output{Messages: n.out.Messages[:0], Events: n.out.Events[:0]}
	return out
}

// Wake returns when Tick must be called next, if nothing else happens.
func (n *Node) Wake() Instant {
	if at, ok := n.timers.next(); ok {
		return at
	}
	return n.now.Add(n.tm.keepIdle)
}

// begin takes the time and does what is due before any input is looked at: an
// answer that comes after the deadline does not bring a lock back (R20).
func (n *Node) begin(now Instant) {
	if now > n.now {
		n.now = now
	}
	if n.holding > 0 && n.now >= n.firstLoss {
		n.expire()
	}
	for t := n.timers.pop(n.now); t != nil; t = n.timers.pop(n.now) {
		t.owner.due(n)
		n.settle()
	}
}

// expire loses what is lost by now (R20), before anything that is due as well when
// the driver is late: a KeepAlive to the own member would renew its grants, the end
// of a session there could give one more.
func (n *Node) expire() {
	n.firstLoss = math.MaxInt64
	// Losing one moves the last request into its place.
	for i := len(n.requests); i > 0; {
		i--
		if i >= len(n.requests) || n.requests[i].state != requestHolding {
			continue
		}
		if until := n.deadline(n.requests[i]).until(); until <= n.now && !n.broken(breakage.LossForgiven) {
			n.lose(n.requests[i])
		} else {
			n.firstLoss = min(n.firstLoss, until)
		}
	}
}

func (n *Node) finish() { n.settle() }

// settle handles the node's messages to itself, and looks at all requests again
// when a member went up, down, or into a new session.
func (n *Node) settle() {
	for len(n.inbox) > 0 || n.review {
		for i := 0; i < len(n.inbox); i++ {
			m := n.inbox[i]
			n.receive(&m)
		}
		clear(n.inbox)
		n.inbox = n.inbox[:0]
		if n.review {
			n.review = false
			n.reviewRequests()
		}
	}
}

// receive checks what all messages have in common and passes them on.
func (n *Node) receive(m *Message) {
	if n.stopped || m.To != n.cfg.Name || m.FromIncarnation.IsZero() {
		return
	}
	if text := outOfRange(m); text != "" {
		n.emit(Event{Type: EventDropped, Peer: m.From, Text: text})
		return
	}
	if m.Fingerprint != n.fingerprint {
		n.otherFingerprint(m)
		return
	}
	if m.From == n.cfg.Name && m.FromIncarnation != n.inc {
		n.raiseIncarnation(m.FromIncarnation) // of a process under this name, or of this one before it rose
		return
	}
	if m.ToIncarnation.Compare(n.inc) > 0 {
		// A client, which answers nobody, can report a higher incarnation only in this
		// way; without it a sole member whose wall clock went back is never heard again.
		if n.raiseIncarnation(m.ToIncarnation); n.stopped {
			return
		}
	}
	if seen := max(m.Timestamp, m.RequestTime); seen > n.clock { // R31
		n.clock = seen
		n.fired(31)
	}
	if i, ok := n.index[m.From]; ok {
		n.sameFingerprint(i)
		n.heardIncarnation(i, m.FromIncarnation)
	}
	if m.Type.FromMember() {
		n.answer(m)
	} else {
		n.serve(m)
	}
}

// outOfRange says what is wrong with the numbers of a message. Those that others
// must go beyond leave room to do so: a timestamp (R31), an incarnation (R30), a
// token (R27).
func outOfRange(m *Message) string {
	const latest = int64(MaxTimestamp)
	switch {
	case m.Timestamp < 0 || m.Timestamp > MaxTimestamp || m.RequestTime < 0 || m.RequestTime > MaxTimestamp:
		return "timestamp out of range"
	case m.FromIncarnation.Start > latest || m.ToIncarnation.Start > latest || m.Other.Start > latest:
		return "incarnation out of range"
	case m.Token > MaxToken || m.Floor > MaxToken:
		return "token out of range"
	}
	return ""
}

// stamp returns the next timestamp (R31).
func (n *Node) stamp() Timestamp {
	n.clock = min(max(n.clock+1, Timestamp(int64(n.now)+n.wall)), MaxTimestamp)
	return n.clock
}

// send completes the header and queues the message, or puts it into the node's
// own inbox.
func (n *Node) send(m Message) {
	m.From, m.FromIncarnation, m.Fingerprint, m.Timestamp = n.cfg.Name, n.inc, n.fingerprint, n.stamp()
	n.count(m.Type, m.To == n.cfg.Name)
	if m.To == n.cfg.Name {
		n.inbox = append(n.inbox, m)
		return
	}
	n.out.Messages = append(n.out.Messages, m)
}

func (n *Node) emit(e Event) { n.out.Events = append(n.out.Events, e) }

// tree returns the layout for a lock: each name has its own rotation.
func (n *Node) tree(lock string) *quorum.Tree {
	rotation := 0
	if !n.cfg.NoRotation {
		rotation = quorum.Rotation(lock, len(n.members))
	}
	return n.rotated(rotation)
}

func (n *Node) rotated(rotation int) *quorum.Tree {
	if n.trees[rotation] == nil {
		// New cannot fail: the number of members was checked, the rotation is in range.
		n.trees[rotation], _ = quorum.New(len(n.members), rotation)
	}
	return n.trees[rotation]
}

// otherFingerprint refuses a message of another configuration (R29). A member of
// this node's own list that differs is not up.
func (n *Node) otherFingerprint(m *Message) {
	n.fired(29)
	if i, ok := n.index[m.From]; ok && i != n.self {
		n.markDiffers(&n.peers[i])
	} else {
		n.emit(Event{Type: EventPeerDiffers, Peer: m.From})
	}
	if m.Type == MsgRequest || m.Type == MsgKeepAlive || m.Type == MsgReadFloors {
		n.send(Message{
			Type: MsgNotReady, To: m.From, ToIncarnation: m.FromIncarnation,
			Lock: m.Lock, ID: m.ID, Reason: ReasonFingerprint,
		})
	}
}

// raiseIncarnation answers the report of a higher incarnation of this node's
// name (R30). Soon after the start it is a former process whose clock was ahead,
// later it is another process.
func (n *Node) raiseIncarnation(other Incarnation) {
	if other.Compare(n.inc) <= 0 || n.stopped {
		return
	}
	n.fired(30)
	if n.now.Sub(n.started) > n.tm.quarantine {
		n.stopped = true
		n.endAll(FailClosed, LossReplaced)
		n.emit(Event{Type: EventReplaced})
		return
	}
	n.inc = Incarnation{Start: max(other.Start+1, int64(n.now)+n.wall), Random: n.nextRandom()}
	n.beginAnew()
	n.emit(Event{Type: EventRestarted})
}

// nextRandom is splitmix64: chance comes in as a seed.
func (n *Node) nextRandom() uint64 {
	n.random += 0x9e3779b97f4a7c15
	z := n.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
