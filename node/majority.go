package node

import (
	"math"
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// holdLimits are until when a request satisfies the rules of holding if nothing more is
// heard. A time that is not after now means that the rule is not satisfied.
type holdLimits struct {
	tree     Instant // rule T (R19)
	majority Instant // rule M (R34)
	votes    Instant // of rule T, the majority that grants or votes for the tree
}

// until is the deadline: whichever rule lasts longer. Both run from now on, so
// there is no gap between them.
func (l holdLimits) until() Instant { return max(l.tree, l.majority) }

// deadline returns until when the grants that count satisfy rule 8.H (R19, R34).
func (n *Node) deadline(r *request) holdLimits {
	for i := range n.values {
		n.values[i] = math.MinInt64
		if until := n.granted(r, i); until > n.now {
			n.values[i] = int64(until)
		}
		n.votes[i] = max(n.values[i], int64(n.peers[i].treeUntil))
	}
	tree := Instant(r.tree.Bottleneck(n.values))
	if n.broken(breakage.MajorityOfGrants) {
		tree = max(tree, Instant(kthLargest(slices.Clone(n.values), n.majority)))
	}
	if n.cfg.TreeOnly {
		return holdLimits{tree: tree, votes: tree}
	}
	if n.broken(breakage.NoVotes) {
		return holdLimits{tree: tree, votes: tree, majority: Instant(kthLargest(n.values, n.majority))}
	}
	votes := Instant(kthLargest(n.votes, n.majority))
	for i := range n.values {
		n.values[i] = min(n.values[i], int64(n.peers[i].majorityUntil))
	}
	return holdLimits{tree: min(tree, votes), majority: Instant(kthLargest(n.values, n.majority)), votes: votes}
}

// updateNeed notes whether the request asks for votes for the majority (R33): while
// no quorum of the tree is up; after that, until it holds under T by what members
// that are up still give, or when it does not hold, for 2T.
func (n *Node) updateNeed(r *request, up quorum.Set) {
	switch {
	case n.cfg.TreeOnly:
	case !r.tree.Contains(up):
		r.lacked, n.lacked = n.now, n.now
		n.setNeed(r, true)
	case !r.need:
	case r.state == requestHolding:
		if n.holdsByTree(r, up) {
			r.byMajority = false
			n.setNeed(r, false)
		}
	case n.now >= r.lacked.Add(n.tm.need):
		n.setNeed(r, false)
	}
}

// holdsByTree reports whether the request holds under T by grants of members that
// are up, and by the votes that they still give; one that has held under M only, by
// grants alone.
func (n *Node) holdsByTree(r *request, up quorum.Set) bool {
	var grants, votes quorum.Set
	for i := range up.All() {
		p := &n.peers[i]
		if n.granted(r, i) > n.now {
			grants = grants.With(i)
		}
		if p.vote == VoteTree && p.treeUntil > n.now {
			votes = votes.With(i)
		}
	}
	if r.byMajority {
		votes = quorum.Set{}
	}
	return r.tree.Contains(grants) && grants.Union(votes).Len() >= n.majority
}

// setNeed says it at once when this node begins to need votes for the majority.
func (n *Node) setNeed(r *request, need bool) {
	switch {
	case need == r.need:
		return
	case !need:
		r.need = false
		n.needing--
		return
	}
	r.need = true
	n.needing++
	n.fired(33)
	if !n.saidNeed {
		n.keepAlive()
	}
	n.timers.setEarlier(&n.peerTimer.timer, n.keptAlive.Add(n.keepEvery()))
}

// needsMajority is what KeepAlives say.
func (n *Node) needsMajority() bool {
	return n.needing > 0 || n.holding == 0 && n.lacked != 0 && n.now < n.lacked.Add(n.tm.need)
}
