package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder keeps what Events were told.
type recorder struct {
	mu    sync.Mutex
	alive map[string]bool
	log   []string
}

func (r *recorder) PeerAlive(name string) { r.note(name, true) }
func (r *recorder) PeerDead(name string)  { r.note(name, false) }

func (r *recorder) note(name string, alive bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive == nil {
		r.alive = make(map[string]bool)
	}
	r.alive[name] = alive
	r.log = append(r.log, fmt.Sprintf("%s:%v", name, alive))
}

func (r *recorder) up() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for name, alive := range r.alive {
		if alive {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// directory is the tests' name server: it maps the Addr of peers to real ones.
type directory struct {
	mu    sync.Mutex
	addrs map[string]netip.AddrPort
}

func newDirectory() *directory { return &directory{addrs: make(map[string]netip.AddrPort)} }

func (d *directory) set(addr string, to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs[addr] = to
}

func (d *directory) resolve(_ context.Context, addr string) ([]netip.AddrPort, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	to, ok := d.addrs[addr]
	if !ok {
		return nil, errors.New("no such host")
	}
	return []netip.AddrPort{to}, nil
}

// peersOf makes a list of peers whose addresses the directory has to know.
func peersOf(names ...string) []Peer {
	var out []Peer
	for _, name := range names {
		out = append(out, Peer{Name: name, Addr: addrOf(name)})
	}
	return out
}

func addrOf(name string) string { return fmt.Sprintf("h%x.test:7946", name) }

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// quick makes a cluster notice failures in a fraction of a second.
func quick(m *memberlist.Config) {
	m.ProbeInterval = 100 * time.Millisecond
	m.ProbeTimeout = 50 * time.Millisecond
	m.GossipInterval = 20 * time.Millisecond
	m.SuspicionMult = 3
	m.SuspicionMaxTimeoutMult = 2
	m.PushPullInterval = time.Second
	m.AwarenessMaxMultiplier = 2
	m.DeadNodeReclaimTime = m.ProbeInterval
}

// port is a member port on loopback: whatever TCP brings is gossip.
type port struct {
	tcp   net.Listener
	udp   *net.UDPConn
	conns chan net.Conn
	wg    sync.WaitGroup
	addr  netip.AddrPort

	mu       sync.Mutex
	accepted int
}

// listen binds TCP and UDP to one number; UDP may find it taken.
func listen(t *testing.T) *port {
	t.Helper()
	var failed error
	for range 20 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		addr := tcp.Addr().(*net.TCPAddr).AddrPort()
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
		if err != nil {
			failed = err
			tcp.Close()
			continue
		}
		p := &port{tcp: tcp, udp: udp, conns: make(chan net.Conn), addr: addr}
		p.wg.Go(p.accept)
		t.Cleanup(p.close)
		return p
	}
	t.Fatalf("listen: no port is free for TCP and UDP: %v", failed)
	return nil
}

func (p *port) accept() {
	defer close(p.conns)
	for {
		conn, err := p.tcp.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		p.mu.Unlock()
		select {
		case p.conns <- conn:
		case <-time.After(2 * time.Second): // the gossip is closed
			conn.Close()
		}
	}
}

func (p *port) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func (p *port) close() {
	p.tcp.Close()
	p.udp.Close()
	p.wg.Wait()
}

// member is one node of a test.
type member struct {
	*recorder
	g    *Gossip
	port *port
}

// config is what the nodes of real-socket tests have in common.
func config(name string, dir *directory, peers []Peer) Config {
	return Config{
		Name: name, Cluster: "test", Peers: peers, Timing: TimingLocal, JoinInterval: 100 * time.Millisecond,
		Seed: 1, Resolve: dir.resolve, tune: quick,
	}
}

// start runs a node on a fresh port and makes it known under its name.
func start(t *testing.T, dir *directory, cfg Config) *member {
	t.Helper()
	m := &member{recorder: &recorder{}, port: listen(t)}
	cfg.Conns, cfg.Packets = m.port.conns, m.port.udp
	dir.set(addrOf(cfg.Name), m.port.addr)
	g, err := Start(cfg, m.recorder)
	if err != nil {
		t.Fatalf("start %q: %v", cfg.Name, err)
	}
	m.g = g
	t.Cleanup(func() { m.crash() })
	return m
}

// crash stops a node without a farewell and frees its port.
func (m *member) crash() {
	crash(m.g)
	m.port.close()
}

// crash ends g without telling anybody.
func crash(g *Gossip) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.Close(ended) // always says that it did not wait
	<-g.closed
}

// eventually waits until ok, looking again every few milliseconds.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// agree waits until every node has been told that all the others are up.
func agree(t *testing.T, limit time.Duration, nodes map[string]*member, names []string) {
	t.Helper()
	for name, m := range nodes {
		want := without(names, name)
		slices.Sort(want)
		eventually(t, limit, fmt.Sprintf("%q sees %v as alive", name, want), func() bool {
			return slices.Equal(m.up(), want)
		})
	}
}
