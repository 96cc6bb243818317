package dmutex

import (
	"time"

	"github.com/treequorum/dmutex/node"
)

// commandKind says what a caller wants of the loop.
type commandKind uint8

const (
	commandLock commandKind = iota + 1
	commandCancel
	commandUnlock
	commandToken
	commandQuery
)

// command is a caller's wish. It goes by value, so that locking allocates nothing
// for it.
type command struct {
	kind  commandKind
	id    node.CallID
	call  *call
	lease *Lease
	try   bool
	query func(core *node.Node, now node.Instant)
	done  chan struct{} // of query
}

// hintKind is what transport or gossip says of a peer.
type hintKind uint8

const (
	hintRefused hintKind = iota + 1
	hintDiffers
	hintAlive
	hintDead
)

type hint struct {
	kind hintKind
	peer string
}

// maxFarewell bounds how long Close waits for holders to unlock.
const maxFarewell = 2 * time.Second

// batch is how many inputs are handled at the most before their output is sent.
const batch = 256

// loop is what the one goroutine that owns the core works on.
type loop struct {
	n        *Node
	core     *node.Node
	calls    map[node.CallID]*call  // that wait
	leases   map[node.CallID]*Lease // that are held
	timer    *time.Timer
	timeAt   node.Instant // when the timer fires
	tick     time.Duration
	nextAt   node.Instant // when deadlines are told again
	reportAt node.Instant // when the log is told who has not answered; zero: it was
	closeBy  node.Instant // set once the node is closing: when what is still held is given up
	heard    bool         // a message came since near deadlines were told
	shortAt  node.Instant // when those may be told again
}

func newLoop(n *Node, core *node.Node) *loop {
	return &loop{
		n: n, core: core, calls: make(map[node.CallID]*call), leases: make(map[node.CallID]*Lease),
		tick: n.cfg.LeaseTTL / 16,
	}
}

// run serves until the node is closed or has to stop.
func (l *loop) run() {
	l.timer = time.NewTimer(l.tick)
	defer l.timer.Stop()
	quit := l.n.quit
	now := l.n.hooks.now()
	l.nextAt, l.reportAt = now.Add(node.Duration(l.tick)), now.Add(node.Duration(l.n.cfg.LeaseTTL))
	l.flush()
	for !l.n.replaced && !l.closed() {
		select {
		case m := <-l.n.inbound:
			l.step(m)
		case c := <-l.n.commands:
			l.command(c)
		case h := <-l.n.hints:
			l.hint(h)
		case <-l.timer.C:
			l.timeAt = 0
			l.onTick()
		case <-quit:
			quit = nil
			l.startClosing()
		}
		l.more()
		l.flush()
		l.renewShort()
		l.setTimer()
	}
	l.shutdown()
}

func (l *loop) step(m node.Message) {
	l.heard = true
	l.core.Step(l.n.hooks.now(), m)
}

// startClosing ends all calls, and tells all holders. What they hold is released
// once they have unlocked it, so that nobody else gets in while they stop.
func (l *loop) startClosing() {
	now := l.n.hooks.now()
	l.closeBy = now.Add(node.Duration(min(l.n.cfg.LeaseTTL/4, maxFarewell)))
	for id := range l.calls {
		l.core.Cancel(now, id)
	}
	for _, lease := range l.leases {
		lease.end(&LostError{Lock: lease.name, Reason: LossClosed})
	}
}

// closed reports whether the loop has nothing left to wait for.
func (l *loop) closed() bool {
	return l.closeBy != 0 && (len(l.leases) == 0 || l.n.hooks.now() >= l.closeBy)
}

// more takes what else has come, so that many messages leave in one write.
func (l *loop) more() {
	for range batch {
		select {
		case m := <-l.n.inbound:
			l.step(m)
		case c := <-l.n.commands:
			l.command(c)
		default:
			return
		}
	}
}

// setTimer wakes the loop when the core wants it, and each T/16: Go's timers stand
// still while the machine sleeps, the core's clock does not.
func (l *loop) setTimer() {
	now := l.n.hooks.now()
	at := min(l.core.Wake(), l.nextAt)
	if l.closeBy != 0 {
		at = min(at, l.closeBy)
	}
	if l.heard && len(l.leases) > 0 {
		at = min(at, l.shortAt)
	}
	if l.timeAt != 0 && l.timeAt <= at {
		return
	}
	l.timeAt = at
	l.timer.Reset(max(0, time.Duration(at-now)))
}

func (l *loop) onTick() {
	now := l.n.hooks.now()
	l.core.Tick(now)
	if now < l.nextAt {
		return
	}
	if l.reportAt != 0 && now >= l.reportAt {
		l.reportAt = 0
		l.report(now)
	}
	l.nextAt = now.Add(node.Duration(l.tick))
	l.core.SetWall(now, l.n.hooks.wall())
	for _, lease := range l.leases {
		l.renew(lease, now)
	}
}

// report tells the log, once, who has not answered for T after the start.
func (l *loop) report(now node.Instant) {
	var missing []string
	for _, p := range l.core.Status(now).Peers {
		if !p.Up && !p.Starting && !p.Self && !p.Differs {
			missing = append(missing, p.Name)
		}
	}
	l.n.log.started(missing)
}

// renewShort tells deadlines that are near as soon as an answer may have moved them:
// a hold by votes is renewed each T/24 and never further than T/3 away.
func (l *loop) renewShort() {
	now := l.n.hooks.now()
	if len(l.leases) == 0 || !l.heard || now < l.shortAt {
		return
	}
	l.heard = false
	l.shortAt = now.Add(node.Duration(l.tick / 6))
	near := int64(now.Add(node.Duration(l.n.cfg.LeaseTTL / 2)))
	for _, lease := range l.leases {
		if lease.deadline.Load() < near {
			l.renew(lease, now)
		}
	}
}

// renew tells a lease its deadline.
func (l *loop) renew(lease *Lease, now node.Instant) {
	if until, ok := l.core.Deadline(now, lease.id); ok {
		lease.deadline.Store(int64(until))
	}
}

func (l *loop) command(c command) {
	now := l.n.hooks.now()
	switch c.kind {
	case commandLock:
		if l.closeBy != 0 {
			c.call.result <- result{failure: node.FailClosed}
			return
		}
		l.calls[c.id] = c.call
		o := &c.call.mutex.opts
		l.core.Lock(now, c.id, c.call.mutex.name, node.CallOptions{
			Label: o.label, Try: c.try, LongHold: o.longHold, Watch: o.onWaiting != nil,
		})
	case commandCancel:
		l.core.Cancel(now, c.id)
	case commandUnlock:
		held := l.core.Unlock(now, c.id)
		if !held {
			l.flush() // tells the loss first, so that Unlock can say why
		}
		delete(l.leases, c.id)
		c.lease.reply <- held
	case commandToken:
		l.core.WantToken(now, c.id)
	case commandQuery:
		c.query(l.core, now)
		l.flush() // who asked sees what the step brought, a loss first of all
		close(c.done)
	}
}

func (l *loop) hint(h hint) {
	now := l.n.hooks.now()
	switch h.kind {
	case hintRefused:
		l.core.PeerRefused(now, h.peer)
	case hintDiffers:
		l.core.PeerDiffers(now, h.peer)
	case hintAlive:
		l.core.PeerAlive(now, h.peer)
	case hintDead:
		l.core.PeerDead(now, h.peer)
	}
}

// flush sends and tells what the core has left.
func (l *loop) flush() {
	out := l.core.Take()
	if l.n.transport != nil {
		for i := range out.Messages {
			l.n.transport.Send(out.Messages[i])
		}
	}
	for i := range out.Events {
		l.event(&out.Events[i])
	}
}

func (l *loop) event(e *node.Event) {
	switch e.Type {
	case node.EventAcquired:
		l.acquired(e)
	case node.EventFailed:
		if c := l.calls[e.Call]; c != nil {
			delete(l.calls, e.Call)
			failure := e.Failure
			if l.closeBy != 0 {
				failure = node.FailClosed
			}
			c.result <- result{failure: failure, facts: e.Facts}
		}
	case node.EventLost:
		if lease := l.leases[e.Call]; lease != nil {
			delete(l.leases, e.Call)
			lease.end(&LostError{Lock: e.Lock, Reason: lossReason(e.Loss)})
		}
	case node.EventDeadline:
		if lease := l.leases[e.Call]; lease != nil {
			lease.deadline.Store(int64(e.Deadline))
		}
	case node.EventToken:
		if lease := l.leases[e.Call]; lease != nil {
			lease.setToken(e.Token)
		}
	case node.EventWaiting:
		if c := l.calls[e.Call]; c != nil && c.mutex.opts.onWaiting != nil {
			c.mutex.opts.onWaiting(waitingOf(e.Facts))
		}
	case node.EventReplaced:
		l.n.replaced = true
	case node.EventPeerUp, node.EventPeerDown, node.EventPeerStarting, node.EventPeerDiffers, node.EventRestarted, node.EventDropped:
	}
	l.n.log.event(e)
}

func (l *loop) acquired(e *node.Event) {
	c := l.calls[e.Call]
	if c == nil {
		return
	}
	delete(l.calls, e.Call)
	lease := &Lease{
		node: l.n, id: e.Call, name: e.Lock, values: c.values,
		reply: make(chan bool, 1), ended: make(chan struct{}),
	}
	lease.deadline.Store(int64(e.Deadline))
	l.leases[e.Call] = lease
	c.result <- result{lease: lease}
}

func (l *loop) shutdown() {
	if !l.n.replaced {
		l.core.Shutdown(l.n.hooks.now())
	}
	l.flush()
}

func lossReason(loss node.Loss) LossReason {
	switch loss {
	case node.LossExpired:
		return LossExpired
	case node.LossCutOff:
		return LossCutOff
	case node.LossClosed:
		return LossClosed
	case node.LossReplaced:
		return LossReplaced
	}
	return LossExpired
}
