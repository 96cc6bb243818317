package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/treequorum/dmutex/node"
)

// closeGrace is how long Close waits for goroutines once every connection is
// closed: only a Handler that blocks can keep one.
const closeGrace = 2 * time.Second

// TCP is the transport of real clusters: see the package comment.
type TCP struct {
	cfg     TCPConfig
	limits  Limits
	resolve func(string) (string, bool)
	own     hello
	count   counters
	wg      sync.WaitGroup

	closing    chan struct{}   // closed when Close starts: send what is queued, take nothing new
	hard       context.Context //nolint:containedctx // ends with the transport, not with a call
	hardCancel context.CancelFunc

	mu      sync.RWMutex
	handler Handler // nil before Start
	closed  bool
	peers   map[string]*peer   // dialed by this node
	inbound map[string][]*link // accepted, by the name of their hello; the newest last
	links   map[*link]struct{} // all live ones
	pending map[net.Conn]struct{}
}

var _ Transport = (*TCP)(nil)

// NewTCP returns a transport that does nothing until Start. It returns
// [ErrInvalidConfig], wrapped, for each thing that is wrong in cfg, which it
// copies.
func NewTCP(cfg TCPConfig) (*TCP, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &TCP{
		cfg: cfg, limits: cfg.Limits.withDefaults(), resolve: cfg.resolver(),
		own:     hello{version: ProtocolVersion, role: roleMember, cluster: cfg.Cluster, name: cfg.Name},
		closing: make(chan struct{}),
		peers:   make(map[string]*peer),
		inbound: make(map[string][]*link),
		links:   make(map[*link]struct{}),
		pending: make(map[net.Conn]struct{}),
	}
	if cfg.Client {
		t.own.role = roleClient
	}
	t.hard, t.hardCancel = context.WithCancel(context.Background())
	return t, nil
}

// Start accepts lock connections on the Port from now on. See [Transport].
func (t *TCP) Start(h Handler) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return fmt.Errorf("%w: make a new one to start again", ErrClosed)
	case t.handler != nil:
		return ErrStarted
	case t.cfg.Port != nil && !t.cfg.Port.setLocks(t.accepted):
		return fmt.Errorf("%w: the Port is closed or another transport takes its connections", ErrInvalidConfig)
	}
	t.handler = h
	return nil
}

// Send implements [Transport].
func (t *TCP) Send(m node.Message) {
	q := t.queueFor(&m)
	if q == nil {
		t.count.droppedNoRoute.Add(1)
		return
	}
	q.put(&m, time.Now())
}

// queueFor finds the connection that m goes to.
func (t *TCP) queueFor(m *node.Message) *queue {
	t.mu.RLock()
	p, known := t.peers[m.To]
	links := t.inbound[m.To]
	open := t.handler != nil && !t.closed
	var back *link
	if len(links) > 0 && m.Type.FromMember() {
		back = linkTo(links, m.ToIncarnation)
	}
	t.mu.RUnlock()
	switch {
	case !open || m.From != t.cfg.Name || m.To == t.cfg.Name:
		return nil
	case m.Type.FromMember():
		if back == nil {
			return nil
		}
		return back.q
	case known:
		return p.q
	}
	return t.newPeer(m.To)
}

// linkTo returns the newest connection that this process of the node has spoken
// on, or the newest of all. Two processes may run under one name, or the former may
// not have ended: what answers one must not go to the other, least of all the word
// that it was replaced.
func linkTo(links []*link, process node.Incarnation) *link {
	for _, l := range slices.Backward(links) {
		if p := l.process.Load(); p != nil && *p == process {
			return l
		}
	}
	return links[len(links)-1]
}

// newPeer starts to dial a name, when it has an address.
func (t *TCP) newPeer(name string) *queue {
	if _, ok := t.resolve(name); !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	p, ok := t.peers[name]
	if !ok {
		p = newPeer(t, name)
		t.peers[name] = p
		t.wg.Go(p.run)
	}
	return p.q
}

// Stats implements [Transport].
func (t *TCP) Stats() Stats { return t.count.stats() }

// Close implements [Transport]. It leaves the Port open, which refuses lock
// connections from then on. Messages that arrive during Close are not delivered.
func (t *TCP) Close(ctx context.Context) error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	if first && t.handler != nil && t.cfg.Port != nil {
		t.cfg.Port.setLocks(nil)
	}
	for conn := range t.pending { // these have nothing queued
		_ = conn.Close()
	}
	t.mu.Unlock()
	if first {
		close(t.closing)
	}
	done := make(chan struct{})
	go func() {
		t.wg.Wait()
		close(done)
	}()
	drain := time.NewTimer(t.limits.Drain)
	defer drain.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-drain.C:
	}
	t.closeHard()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-grace.C:
		return errors.New("transport: close: a goroutine is still in a Handler call: Deliver must return once its owner closes")
	}
}

// closeHard ends dials and connections.
func (t *TCP) closeHard() {
	t.hardCancel()
	t.mu.RLock()
	open := make([]*link, 0, len(t.links))
	for l := range t.links {
		open = append(open, l)
	}
	t.mu.RUnlock()
	for _, l := range open {
		l.close()
	}
}

// isClosing says that Close was called.
func (t *TCP) isClosing() bool {
	select {
	case <-t.closing:
		return true
	default:
		return false
	}
}

// addLink makes a connection known. It returns false when the transport is
// closing; the caller then closes the connection.
func (t *TCP) addLink(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.links[l] = struct{}{}
	if !l.inbound {
		t.count.outbound.Add(1)
		return true
	}
	t.count.inbound.Add(1)
	same := append(t.inbound[l.peer], l)
	if len(same) > t.limits.ConnsPerPeer {
		t.count.replaced.Add(1)
		same[0].close()
		same = slices.Delete(same, 0, 1)
	}
	t.inbound[l.peer] = same
	return true
}

// removeLink forgets a connection that ended.
func (t *TCP) removeLink(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.links, l)
	if !l.inbound {
		t.count.outbound.Add(-1)
		return
	}
	t.count.inbound.Add(-1)
	rest := slices.DeleteFunc(t.inbound[l.peer], func(other *link) bool { return other == l })
	if len(rest) == 0 {
		delete(t.inbound, l.peer)
		return
	}
	t.inbound[l.peer] = rest
}
