package node

import (
	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// broken reports whether a test has this rule taken out, to see that the checkers
// of node/nodetest find it. It is false for all users of the package.
func (n *Node) broken(f breakage.Fault) bool { return n.cfg.Breakage.Has(f) }

// breakTiming makes spans too short that are broken so.
func (tm *timing) breakTiming(b breakage.Set) {
	if b.Has(breakage.ShortLease) {
		tm.session = tm.ttl * 9 / 10
	}
	if b.Has(breakage.LongVotes) {
		tm.vote = tm.fresh
	}
	if b.Has(breakage.ShortQuarantine) {
		tm.quarantine = tm.ttl * 7 / 10
	}
	if b.Has(breakage.NoQuarantine) {
		tm.quarantine = 1
	}
}

// breakGrant drops the grant in favor of whoever stands first in the queue.
func (n *Node) breakGrant(l *lockState) {
	if n.broken(breakage.ManyGrants) && l.grant != nil {
		delete(l.grant.session.entries, l.name)
		l.grant = nil
	}
}

// breakSilence ends a grant whose owner has said nothing since the last Validate.
func (n *Node) breakSilence(l *lockState) bool {
	s := l.grant.session
	if !n.broken(breakage.SilenceFrees) || l.validated == 0 || s.heard >= l.validated {
		return false
	}
	n.endEntry(l.name, s, l.grant.id)
	return true
}

// breakCounts says until when a grant counts that should not.
func (n *Node) breakCounts(a *ask, p *peer) (Instant, bool) {
	switch {
	case n.broken(breakage.NoSessionNumbers) && a.inc == p.inc, n.broken(breakage.FormerRenewed) && a.inc != p.inc:
		return p.freshUntil, true
	}
	return 0, false
}

// breakRepeat puts off the next Request for ever.
func (n *Node) breakRepeat(a *ask, f breakage.Fault) {
	if n.broken(f) {
		a.sent = n.now.Add(1000 * n.tm.ttl)
	}
}

// breakYield does what a requester that yields should not do, instead of what it
// should.
func (n *Node) breakYield(a *ask, m *Message) bool {
	mine := a.inc == m.FromIncarnation && a.number == m.Number
	switch {
	case n.broken(breakage.YieldForgotten):
		if a.inc == m.FromIncarnation && a.number <= m.Number {
			a.number = 0
		}
		return true
	case n.broken(breakage.YieldOnlyNamed):
		return !mine
	}
	return false
}

// breakCommit reports whether a token that is not fixed passes for fixed.
func (n *Node) breakCommit(r *request) bool {
	if n.cfg.Breakage == (breakage.Set{}) {
		return false
	}
	var took quorum.Set
	for i := range r.asks {
		if n.tookToken(r, i) {
			took = took.With(i)
		}
	}
	return n.broken(breakage.TokenWithoutCommit) || n.broken(breakage.TokenByOne) && !took.Empty() ||
		n.broken(breakage.TokenByGranters) && r.tree.Contains(took)
}
