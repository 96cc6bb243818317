package dmutex

import (
	"time"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/transport"
)

// Stats are counters of a node since its start.
type Stats struct {
	Acquired     uint64 // leases, those handed over within this process among them
	Lost         uint64 // leases lost before they were unlocked
	LockMessages uint64 // protocol messages sent, without KeepAlives and their answers
	KeepAlives   uint64 // KeepAlives and their answers sent
	SentByType   map[string]uint64
	Transport    transport.Stats // zero for a standalone node
}

// MemberStatus is a member as this node sees it.
type MemberStatus struct {
	Name     string
	Self     bool
	Up       bool          // answers in time, so that it is asked for locks
	Starting bool          // answers, but was started too lately to grant
	Differs  bool          // runs with another configuration
	RTT      time.Duration // measured round trip; zero: not yet, or this node itself
	Vote     string        // tree, majority or none
}

// query runs f on the loop. It reports false when the node has stopped.
func (n *Node) query(f func(core *node.Node, now node.Instant)) bool {
	done := make(chan struct{})
	if !n.submit(command{kind: commandQuery, query: f, done: done}) {
		return false
	}
	select {
	case <-done:
		return true
	case <-n.stopping:
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// Stats returns the counters; all zero after the node has stopped.
func (n *Node) Stats() Stats {
	var core node.Stats
	if !n.query(func(c *node.Node, _ node.Instant) { core = c.Stats() }) {
		return Stats{}
	}
	s := Stats{Acquired: core.Acquired, Lost: core.Lost, SentByType: make(map[string]uint64)}
	for i, count := range core.Sent {
		t := node.MessageType(i)
		switch {
		case count == 0:
			continue
		case t == node.MsgKeepAlive || t == node.MsgKeepAliveAck:
			s.KeepAlives += count
		default:
			s.LockMessages += count
		}
		s.SentByType[t.String()] = count
	}
	if n.transport != nil {
		s.Transport = n.transport.Stats()
	}
	return s
}

// Members returns all members by name; nil after the node has stopped.
func (n *Node) Members() []MemberStatus {
	var status node.Status
	if !n.query(func(c *node.Node, now node.Instant) { status = c.Status(now) }) {
		return nil
	}
	members := make([]MemberStatus, 0, len(status.Peers))
	for _, p := range status.Peers {
		members = append(members, MemberStatus{
			Name: p.Name, Self: p.Self, Up: p.Up, Starting: p.Starting, Differs: p.Differs, RTT: time.Duration(p.RoundTrip), Vote: p.Vote.String(),
		})
	}
	return members
}

// Ready returns nil when this node can be expected to get and to grant locks.
// Otherwise it says what is missing: a [PeersDifferError], a [NoQuorumError], a
// [QuarantineError], or ErrClosed. It does not wait for the network.
func (n *Node) Ready() error {
	var status node.Status
	if !n.query(func(c *node.Node, now node.Instant) { status = c.Status(now) }) {
		return n.closedError()
	}
	var differs, missing, starting []string
	for _, p := range status.Peers {
		switch {
		case p.Differs:
			differs = append(differs, p.Name)
			missing = append(missing, p.Name)
		case p.Starting:
			starting = append(starting, p.Name)
		case !p.Up:
			missing = append(missing, p.Name)
		}
	}
	switch {
	case !status.Enough && len(differs) > 0:
		return &PeersDifferError{Peers: differs}
	case status.Quarantined:
		return &QuarantineError{For: time.Duration(status.QuarantineLeft)}
	case !status.Enough:
		return &NoQuorumError{Missing: missing, Starting: starting, Members: len(status.Peers)}
	}
	return nil
}

// Tree draws the members as the tree that the lock of that name uses; empty after
// the node has stopped.
func (n *Node) Tree(lock string) string {
	var text string
	n.query(func(c *node.Node, _ node.Instant) {
		tree, members := c.Tree(lock)
		text = tree.Draw(func(member int) string { return members[member] })
	})
	return text
}

// Root returns the member at the root of the lock's tree; empty after the node has
// stopped.
func (n *Node) Root(lock string) string {
	var root string
	n.query(func(c *node.Node, _ node.Instant) {
		tree, members := c.Tree(lock)
		root = members[tree.Root()]
	})
	return root
}
