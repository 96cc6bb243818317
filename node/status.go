package node

import "github.com/treequorum/dmutex/quorum"

// Stats counts what a node did since its start.
type Stats struct {
	Sent     [maxMessageType]uint64 // by MessageType; messages to itself are not counted
	Acquired uint64                 // leases, local hand-overs among them
	Lost     uint64
	Rules    [LastRule + 1]uint64 // how often each rule of doc.go decided something, by its number
}

// LastRule is the number of the last rule of doc.go.
const LastRule = 34

// fired counts that a rule decided something: a simulator shows with it what its
// runs have covered.
func (n *Node) fired(rule uint8) { n.stats.Rules[rule]++ }

func (n *Node) count(t MessageType, self bool) {
	if !self {
		n.stats.Sent[t]++
	}
}

// Stats returns the counters.
func (n *Node) Stats() Stats { return n.stats }

// PeerStatus is a member as this node sees it.
type PeerStatus struct {
	Name        string
	Self        bool
	Up          bool
	Starting    bool // it answers, but is quarantined
	Differs     bool
	Incarnation Incarnation
	Session     uint64
	RoundTrip   Duration // zero: not measured yet
	Vote        Vote     // latest
}

// Status is what a node knows of itself and its peers.
type Status struct {
	Incarnation Incarnation
	Quarantined bool
	// QuarantineLeft is how much of the quarantine is still to come.
	QuarantineLeft Duration
	FloorsKnown    bool
	Stopped        bool
	Majority       int
	Enough         bool         // the members that are up suffice for locks
	Peers          []PeerStatus // by name
	Locks          int          // with state at this member
	Sessions       int          // at this member
	Requests       int          // of this node
}

// Status returns a copy of what the node knows now.
func (n *Node) Status(now Instant) Status {
	n.begin(now)
	defer n.finish()
	s := Status{
		Incarnation: n.inc, Quarantined: n.quarantined, FloorsKnown: n.floors.known, Stopped: n.stopped,
		Majority: n.majority, Locks: len(n.locks), Sessions: len(n.sessions), Requests: len(n.requests),
	}
	if s.Quarantined {
		s.QuarantineLeft = n.started.Add(n.tm.quarantine).Sub(n.now)
	}
	s.Enough = n.enoughForAll(n.upSet())
	for i := range n.peers {
		p := &n.peers[i]
		status := PeerStatus{
			Name: p.name, Self: i == n.self, Up: n.isUp(p), Starting: p.starting, Differs: p.differs,
			Incarnation: p.inc, Session: p.session, Vote: p.vote,
		}
		if p.measured {
			status.RoundTrip = p.roundTrip
		}
		s.Peers = append(s.Peers, status)
	}
	return s
}

// enoughForAll reports whether these members suffice for every lock, whichever its
// rotation. Without TreeOnly all rotations are alike in that.
func (n *Node) enoughForAll(up quorum.Set) bool {
	rotations := len(n.members)
	if n.cfg.NoRotation || !n.cfg.TreeOnly {
		rotations = 1
	}
	for rotation := range rotations {
		if !n.enough(n.rotated(rotation), up) {
			return false
		}
	}
	return true
}

// Tree returns the layout of a lock and the members' names by number.
func (n *Node) Tree(lock string) (*quorum.Tree, []string) { return n.tree(lock), n.members }
