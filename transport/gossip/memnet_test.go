package gossip

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// memNet is a network in memory for bubbles of virtual time. Packets are dropped when
// a buffer is full; streams are pipes.
type memNet struct {
	mu    sync.Mutex
	ports map[netip.AddrPort]*memPort
	deaf  map[netip.AddrPort]bool // black holes: take everything, answer nothing
}

func newMemNet() *memNet {
	return &memNet{ports: make(map[netip.AddrPort]*memPort), deaf: make(map[netip.AddrPort]bool)}
}

// memPort is one member port of a memNet, and the packet socket of it.
type memPort struct {
	net   *memNet
	addr  netip.AddrPort
	conns chan net.Conn
	in    chan memPacket
	ended chan struct{}

	mu   sync.Mutex
	kick chan struct{} // closed: the read deadline has passed
}

type memPacket struct {
	b    []byte
	from net.Addr
}

func (n *memNet) listen(addr netip.AddrPort) *memPort {
	p := &memPort{
		net: n, addr: addr, conns: make(chan net.Conn, 16), in: make(chan memPacket, 256),
		ended: make(chan struct{}), kick: make(chan struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[addr] = p
	return p
}

// setDeaf makes an address a black hole, or an ordinary one again.
func (n *memNet) setDeaf(addr netip.AddrPort, deaf bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf[addr] = deaf
}

func (n *memNet) at(from, to netip.AddrPort) (p *memPort, deaf bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ports[to], n.deaf[to] || n.deaf[from]
}

// dialer returns the dial hook of the node at from.
func (n *memNet) dialer(from netip.AddrPort) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		p, deaf := n.at(from, to)
		if deaf {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if p == nil {
			return nil, errors.New("connection refused")
		}
		here, there := net.Pipe()
		select {
		case p.conns <- there:
			return here, nil
		default:
			return nil, errors.New("backlog full")
		}
	}
}

func (p *memPort) WriteTo(b []byte, to net.Addr) (int, error) {
	dest, deaf := p.net.at(p.addr, to.(*net.UDPAddr).AddrPort())
	if dest == nil || deaf {
		return len(b), nil
	}
	select {
	case dest.in <- memPacket{append([]byte(nil), b...), net.UDPAddrFromAddrPort(p.addr)}:
	default:
	}
	return len(b), nil
}

func (p *memPort) ReadFrom(b []byte) (int, net.Addr, error) {
	p.mu.Lock()
	kick := p.kick
	p.mu.Unlock()
	select {
	case packet := <-p.in:
		return copy(b, packet.b), packet.from, nil
	case <-kick:
		return 0, nil, os.ErrDeadlineExceeded
	case <-p.ended:
		return 0, nil, net.ErrClosed
	}
}

func (p *memPort) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.IsZero() {
		p.kick = make(chan struct{})
	} else {
		close(p.kick) // the gossip only sets deadlines in the past
	}
	return nil
}

func (p *memPort) SetDeadline(time.Time) error      { return errors.New("not used") }
func (p *memPort) SetWriteDeadline(time.Time) error { return errors.New("not used") }
func (p *memPort) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(p.addr) }

// Close frees the address and hangs up on whoever is still in the backlog.
func (p *memPort) Close() error {
	p.net.mu.Lock()
	if p.net.ports[p.addr] == p {
		delete(p.net.ports, p.addr)
	}
	p.net.mu.Unlock()
	close(p.ended)
	for {
		select {
		case conn := <-p.conns:
			conn.Close()
		default:
			return nil
		}
	}
}

// memCluster is a set of nodes on a memNet.
type memCluster struct {
	net   *memNet
	dir   *directory
	names []string
	nodes map[string]*memNode
	lines *lines
}

// lines is a logrus hook that keeps what was logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Levels() []logrus.Level { return logrus.AllLevels }

func (l *lines) Fire(e *logrus.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e.Message)
	return nil
}

// with returns the lines that contain a text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(line string) bool { return !strings.Contains(line, text) })
}

// logger returns a logger that only the hook hears.
func (l *lines) logger() *logrus.Logger {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	logger.SetLevel(logrus.DebugLevel)
	logger.AddHook(l)
	return logger
}

type memNode struct {
	*recorder
	g    *Gossip
	port *memPort
}

func newMemCluster(names ...string) *memCluster {
	return &memCluster{net: newMemNet(), dir: newDirectory(), names: names, nodes: make(map[string]*memNode), lines: &lines{}}
}

func memAddr(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port)
}

// start runs a node at a port number with the settings of timing.
func (c *memCluster) start(t *testing.T, name string, number uint16, timing Timing) *memNode {
	t.Helper()
	addr := memAddr(number)
	n := &memNode{recorder: &recorder{}, port: c.net.listen(addr)}
	c.dir.set(addrOf(name), addr)
	g, err := Start(Config{
		Name: name, Cluster: "bubble", Peers: peersOf(c.names...), Conns: n.port.conns, Packets: n.port,
		Timing: timing, Logger: c.lines.logger(), Seed: uint64(number), Resolve: c.dir.resolve, dial: c.net.dialer(addr),
	}, n.recorder)
	if err != nil {
		t.Fatalf("start %q: %v", name, err)
	}
	n.g = g
	c.nodes[name] = n
	return n
}

// crash ends a node without a farewell.
func (c *memCluster) crash(name string) {
	n := c.nodes[name]
	n.port.Close()
	crash(n.g)
	delete(c.nodes, name)
}

func (c *memCluster) crashAll() {
	for name := range c.nodes {
		c.crash(name)
	}
}
