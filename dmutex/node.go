package dmutex

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/transport"
	"github.com/treequorum/dmutex/transport/gossip"
)

// closeTime bounds how long a node takes to close its connections, whatever its
// peers do. With the farewell and the log it makes the 5 seconds of Close.
const closeTime = 2 * time.Second

// hooks are what tests replace.
type hooks struct {
	now       func() node.Instant // CLOCK_BOOTTIME
	wall      func() int64        // nanoseconds
	transport transport.Transport // instead of TCP and gossip
	seed      uint64
}

// Node is one node of a cluster, running until Close. All methods may be called
// by several goroutines. Those that tell its state ask its own goroutine, and wait
// for that and not for the network.
type Node struct {
	cfg   Config // copied, with the defaults filled in
	hooks hooks
	log   *logger

	port      *transport.Port
	transport transport.Transport // nil: standalone
	gossip    *gossip.Gossip

	lastCall atomic.Uint64
	inbound  chan node.Message
	commands chan command
	hints    chan hint
	quit     chan struct{} // Close was called
	stopping chan struct{} // the loop has ended
	done     chan struct{} // nothing runs any more
	close    sync.Once
	replaced bool // only the loop's goroutine uses it, and who waited for stopping
}

// Start starts a node: it listens, unless the node is a client or standalone, and
// begins to talk to its peers. It does not wait for any of them. The Config is
// validated and copied. The caller must Close the node.
func Start(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, hooks: cfg.hooks.orDefault(),
		inbound: make(chan node.Message, 1024), commands: make(chan command, 64), hints: make(chan hint, 256),
		quit: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	n.cfg.Peers = append([]Peer(nil), cfg.Peers...)
	core, err := n.newCore()
	if err != nil {
		return nil, fmt.Errorf("dmutex: %w", err)
	}
	n.log = newLogger(cfg.Logger, cfg.Name, n.cfg.Peers)
	if err := n.connect(); err != nil {
		n.disconnect(context.Background())
		n.log.close()
		return nil, err
	}
	go n.run(newLoop(n, core))
	return n, nil
}

func (h hooks) orDefault() hooks {
	if h.now == nil {
		h.now = func() node.Instant { return node.Instant(BootNow()) }
	}
	if h.wall == nil {
		h.wall = func() int64 { return time.Now().UnixNano() }
	}
	if h.seed == 0 {
		h.seed = rand.Uint64() //nolint:gosec // decides between incarnations, keeps no secret
	}
	return h
}

func (n *Node) newCore() (*node.Node, error) {
	names := make([]string, 0, len(n.cfg.Peers))
	for _, p := range n.cfg.Peers {
		names = append(names, p.Name)
	}
	wall := n.hooks.wall()
	return node.New(node.Config{
		Name: n.cfg.Name, Members: names, Cluster: n.cfg.Cluster,
		LeaseTTL: node.Duration(n.cfg.LeaseTTL), Drift: int64(n.cfg.MaxClockDrift*1e6 + 0.5),
		NoRotation: n.cfg.DisableRotation, TreeOnly: n.cfg.TreeOnly, Standalone: n.cfg.Standalone,
		Incarnation: node.Incarnation{Start: wall, Random: n.hooks.seed}, Seed: n.hooks.seed,
	}, n.hooks.now(), wall)
}

// connect opens what the node talks over.
func (n *Node) connect() error {
	switch {
	case n.hooks.transport != nil:
		n.transport = n.hooks.transport
		return n.transport.Start(listener{n})
	case n.cfg.Standalone:
		return nil
	}
	peers := make(map[string]string, len(n.cfg.Peers))
	for _, p := range n.cfg.Peers {
		peers[p.Name] = p.Addr
	}
	if !n.cfg.Client {
		if n.cfg.Listen == "" {
			n.cfg.Listen = peers[n.cfg.Name]
		}
		port, err := transport.Listen(n.cfg.Listen)
		if err != nil {
			return fmt.Errorf("dmutex: %w", err)
		}
		n.port = port
	}
	tcp, err := transport.NewTCP(transport.TCPConfig{
		Name: n.cfg.Name, Cluster: n.cfg.Cluster, Client: n.cfg.Client, Peers: peers, Port: n.port, Seed: n.hooks.seed,
		Limits: transport.Limits{
			// What is older has been repeated by the rules.
			QueueAge:   min(2*time.Second, n.cfg.LeaseTTL/2),
			BackoffMax: min(time.Second, n.cfg.LeaseTTL/4),
			// After a cut a fresh attempt gets through sooner than a lost SYN is repeated.
			Dial: max(250*time.Millisecond, min(5*time.Second, n.cfg.LeaseTTL/2)),
		},
	})
	if err != nil {
		return fmt.Errorf("dmutex: %w", err)
	}
	n.transport = tcp
	if err := tcp.Start(listener{n}); err != nil {
		return fmt.Errorf("dmutex: %w", err)
	}
	return n.startGossip()
}

func (n *Node) startGossip() error {
	if n.cfg.Client || len(n.cfg.Peers) == 1 {
		return nil
	}
	timing := gossip.TimingLAN
	switch n.cfg.Profile {
	case ProfileLocal:
		timing = gossip.TimingLocal
	case ProfileWAN:
		timing = gossip.TimingWAN
	case ProfileLAN:
	}
	cfg := gossip.Config{
		Name: n.cfg.Name, Cluster: n.cfg.Cluster, Conns: n.port.GossipConns(), Packets: n.port.PacketConn(),
		Timing: timing, Seed: n.hooks.seed, Logger: n.cfg.Logger,
	}
	for _, p := range n.cfg.Peers {
		cfg.Peers = append(cfg.Peers, gossip.Peer{Name: p.Name, Addr: p.Addr})
	}
	g, err := gossip.Start(cfg, listener{n})
	if err != nil {
		return fmt.Errorf("dmutex: %w", err)
	}
	n.gossip = g
	return nil
}

// run is the node's life: serve, then close everything.
func (n *Node) run(l *loop) {
	l.run()
	close(n.stopping) // from here on whoever hands something to the loop is let go
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	n.disconnect(ctx)
	for _, lease := range l.leases { // those that had to stop, and an Unlock that the loop did not read
		lease.end(&LostError{Lock: lease.name, Reason: LossClosed})
	}
	n.log.close()
	close(n.done)
}

// disconnect closes what connect opened. Goodbyes that are queued get half a
// second to leave. Gossip leaves at the same time.
func (n *Node) disconnect(ctx context.Context) {
	var wg sync.WaitGroup
	if n.gossip != nil {
		wg.Go(func() { _ = n.gossip.Close(ctx) })
	}
	if n.transport != nil {
		wg.Go(func() { _ = n.transport.Close(ctx) })
	}
	wg.Wait()
	if n.port != nil {
		_ = n.port.Close()
	}
}

// Close ends this node's calls with ErrClosed and its leases as lost, reason
// "closed", waits for their holders to unlock them (T/4, and 2 seconds at the most),
// so that nobody else has the lock while they stop, says goodbye to the members and
// stops. It returns when no goroutine of the node is left (but for one that the
// Logger blocks), after 5 seconds at the most, or with ctx's error when
// that comes first; the node then goes on closing. A second Close waits for the first.
func (n *Node) Close(ctx context.Context) error {
	n.close.Do(func() { close(n.quit) })
	select {
	case <-n.done:
		return nil
	case <-ctx.Done():
		select {
		case <-n.done:
			return nil
		default:
		}
		return fmt.Errorf("dmutex: node %q is still closing: %w", n.cfg.Name, contextError(ctx))
	}
}

// Done is closed when the node has stopped: after Close, or because it had to.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns nil while the node runs, and ErrClosed after Close, joined with
// ErrReplaced when the node had to stop by itself.
func (n *Node) Err() error {
	select {
	case <-n.stopping:
		return n.closedError()
	default:
		return nil
	}
}

// closedError says why nothing can be done any more.
func (n *Node) closedError() error {
	select {
	case <-n.stopping:
		if n.replaced {
			return errors.Join(ErrClosed, ErrReplaced)
		}
	default:
	}
	return ErrClosed
}

// Name returns the node's name.
func (n *Node) Name() string { return n.cfg.Name }

// Addr returns the address that the node listens on; empty for a client and for a
// standalone node.
func (n *Node) Addr() string {
	if n.port == nil {
		return ""
	}
	return n.port.Addr().String()
}

func (n *Node) nextCall() node.CallID { return node.CallID(n.lastCall.Add(1)) }

// submit hands a command to the loop. It reports false when the loop has ended.
func (n *Node) submit(c command) bool {
	select {
	case n.commands <- c:
		return true
	case <-n.stopping:
		return false
	}
}

// deliver hands a message to the loop, which may be behind: then the connection is
// not read meanwhile.
func (n *Node) deliver(m node.Message) {
	select {
	case n.inbound <- m:
	case <-n.stopping:
	}
}

func (n *Node) hint(h hint) {
	select {
	case n.hints <- h:
	case <-n.stopping:
	default: // a hint that is lost costs a time-out at the most
	}
}

// listener is what transport and gossip call. It keeps their methods off Node.
type listener struct{ n *Node }

var (
	_ transport.Handler = listener{}
	_ gossip.Events     = listener{}
)

// Deliver implements transport.Handler.
func (l listener) Deliver(m node.Message) { l.n.deliver(m) }

// PeerRefused implements transport.Handler.
func (l listener) PeerRefused(name string) { l.n.hint(hint{hintRefused, name}) }

// PeerMismatch implements transport.Handler.
func (l listener) PeerMismatch(m transport.Mismatch) {
	l.n.log.line(logrus.WarnLevel, "mismatch "+m.Peer, m.String(), logrus.Fields{"peer": m.Peer})
	if !m.Inbound { // whoever dials can claim any name
		l.n.hint(hint{hintDiffers, m.Peer})
	}
}

// PeerAlive implements gossip.Events.
func (l listener) PeerAlive(name string) { l.n.hint(hint{hintAlive, name}) }

// PeerDead implements gossip.Events.
func (l listener) PeerDead(name string) { l.n.hint(hint{hintDead, name}) }
