package node

// MaxToken is the highest fencing token; a message with a higher one is invalid.
const MaxToken uint64 = 1 << 62

// commit is the fencing token of one lease (R27).
type commit struct {
	active bool // asked for, not yet fixed
	done   bool
	token  uint64
}

// memberCommit is what one member said of the token that is being fixed.
type memberCommit struct {
	sent      Instant
	sentToken uint64
	ok        bool
	token     uint64
	inc       Incarnation
	session   uint64
	unable    Instant // when it said that it cannot take any token now
}

// WantToken asks for the fencing token of the call's lease. It ends with
// EventToken, or with the loss of the lease.
func (n *Node) WantToken(now Instant, call CallID) {
	n.begin(now)
	defer n.finish()
	c := n.calls[call]
	if c == nil || c.local.lease != c {
		return
	}
	l := c.local
	switch {
	case l.commit.done:
		n.emit(Event{Type: EventToken, Call: call, Lock: l.name, Token: l.commit.token})
	case !l.commit.active:
		floor := l.req.proposed
		for i := range l.req.asks {
			if a := &l.req.asks[i]; a.number != 0 {
				floor = max(floor, a.floor)
			}
		}
		n.propose(l.req, floor)
		n.work(l.req)
	}
}

// propose proposes a token above floor. A token belongs to one lease: the next
// lease under the same request proposes a higher one, and answers for an older
// token do not count.
func (n *Node) propose(r *request, floor uint64) {
	r.proposed = max(r.proposed, floor) + 1
	r.local.commit = commit{active: true, token: r.proposed}
}

// workCommit sends the Commit to a majority of members, granting or not, and
// ends when a majority took the token and all these answers are still fresh.
func (n *Node) workCommit(r *request) {
	c := &r.local.commit
	if !c.active {
		return
	}
	if n.committed(r) >= n.majority || n.breakCommit(r) {
		c.active, c.done = false, true
		n.fired(27)
		n.emit(Event{Type: EventToken, Call: r.local.lease.id, Lock: r.local.name, Token: c.token})
		return
	}
	chosen := 0
	for _, granting := range [2]bool{true, false} {
		for _, i := range n.byCost() {
			if chosen < n.majority && (n.granted(r, i) > n.now) == granting && n.canCommit(r, i) {
				chosen++
				n.sendCommit(r, i)
			}
		}
	}
}

func (n *Node) canCommit(r *request, i int) bool {
	p, c := &n.peers[i], &r.asks[i].commit
	return n.isUp(p) && !p.inc.IsZero() && (c.unable == 0 || n.now >= c.unable.Add(n.tm.repeat))
}

// sendCommit sends the Commit unless the member took it, or was sent it lately.
func (n *Node) sendCommit(r *request, i int) {
	p, c, token := &n.peers[i], &r.asks[i].commit, r.local.commit.token
	if n.tookToken(r, i) || c.sentToken == token && n.now < c.sent.Add(n.tm.holderRepeat) {
		return
	}
	c.sent, c.sentToken, c.unable = n.now, token, 0
	n.toMember(p, Message{Type: MsgCommit, Lock: r.local.name, ID: RequestID{n.inc, r.id}, Token: token})
}

func (n *Node) tookToken(r *request, i int) bool {
	c := &r.asks[i].commit
	return c.ok && c.token == r.local.commit.token && n.peers[i].countsUntil(c.inc, c.session) > n.now
}

func (n *Node) committed(r *request) int {
	count := 0
	for i := range r.asks {
		if n.tookToken(r, i) {
			count++
		}
	}
	return count
}

func (n *Node) handleCommitted(p *peer, m *Message) {
	r := n.current(m)
	if r == nil || r.state != requestHolding || !r.local.commit.active || m.Token != r.local.commit.token {
		return
	}
	c := &r.asks[p.id].commit
	switch {
	case m.OK:
		c.ok, c.token, c.inc, c.session = true, m.Token, m.FromIncarnation, m.Session
	case m.Floor >= m.Token:
		n.propose(r, m.Floor)
	default:
		c.unable = n.now // it does not know its floors yet
	}
	n.work(r)
}
