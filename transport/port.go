package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// Defaults and limits of a Port.
const (
	defaultMaxConns      = 16384
	defaultGossipBacklog = 64
	defaultHandshake     = 5 * time.Second
	// portTries is how often Listen looks for a port that is free for TCP and UDP.
	portTries = 32
	// acceptPause and maxAcceptPause bound the wait after a failed accept: out of
	// file descriptors, a loop without a wait would take a whole core.
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
	// The first byte of a plain gossip stream: a message type, or the mark of a
	// label.
	maxGossipType   = 13
	gossipLabelMark = 244
)

// PortConfig sets the limits of a Port. A zero field takes the default.
type PortConfig struct {
	// Handshake is how long a new connection may take to send its first byte
	// (default 5 s).
	Handshake time.Duration
	// MaxConns is how many accepted connections may be open, lock connections and
	// gossip streams together (default 16,384). One more is closed at once.
	MaxConns int
	// GossipBacklog is how many gossip streams may wait to be taken from
	// GossipConns (default 64). One more is closed at once.
	GossipBacklog int
}

// PortStats are the counters of a Port. Open is a gauge.
type PortStats struct {
	Accepted uint64 // connections accepted
	Rejected uint64 // closed at once: too many, or nobody there to take them
	Strange  uint64 // closed after a first byte that no protocol here starts with
	Silent   uint64 // closed without a first byte in time
	Open     int64
}

// Port is the one address of a member, TCP and UDP. The first byte of an accepted
// connection tells whether it is a lock connection (given to the [TCP] transport
// that has this Port) or a gossip stream (given out by GossipConns). Its methods
// may be called by several goroutines.
type Port struct {
	cfg    PortConfig
	tcp    *net.TCPListener
	udp    *net.UDPConn
	gossip chan net.Conn
	done   chan struct{} // closed by Close
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	locks  func(net.Conn) // takes lock connections; nil: nobody does
	conns  map[*portConn]struct{}
	stats  PortStats
}

// Listen opens the address ("host:port"; an empty host means all addresses, port
// 0 any free one) for TCP and UDP, with the default limits. It returns
// [ErrPortTaken], wrapped, when somebody else has the address. Connections are
// accepted from now on; lock connections are closed until a TCP transport is
// started on the Port. The caller closes the Port, after the transport and the
// gossip that use it.
func Listen(addr string) (*Port, error) {
	return ListenConfig(addr, PortConfig{})
}

// ListenConfig is Listen with other limits.
func ListenConfig(addr string, cfg PortConfig) (*Port, error) {
	if cfg.Handshake <= 0 {
		cfg.Handshake = defaultHandshake
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if cfg.GossipBacklog <= 0 {
		cfg.GossipBacklog = defaultGossipBacklog
	}
	tcp, udp, err := listenBoth(addr)
	if err != nil {
		return nil, err
	}
	p := &Port{
		cfg: cfg, tcp: tcp, udp: udp,
		gossip: make(chan net.Conn, cfg.GossipBacklog),
		done:   make(chan struct{}),
		conns:  make(map[*portConn]struct{}),
	}
	p.wg.Go(p.accept)
	return p, nil
}

// listenBoth opens TCP and UDP on one address. With port 0 the system picks a TCP
// port whose number may be taken for UDP; then another one is tried.
func listenBoth(addr string) (*net.TCPListener, *net.UDPConn, error) {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("transport: listen address %q: %w: write it as host:port", addr, err)
	}
	for try := 1; ; try++ {
		tcp, err := net.ListenTCP("tcp", want)
		if err != nil {
			return nil, nil, listenError("TCP", addr, err)
		}
		port := tcp.Addr().(*net.TCPAddr).Port // a TCP listener has no other
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: want.IP, Port: port, Zone: want.Zone})
		if err == nil {
			return tcp, udp, nil
		}
		closeErr := tcp.Close()
		if want.Port != 0 || try == portTries {
			return nil, nil, errors.Join(listenError("UDP", addr, err), closeErr)
		}
	}
}

// listenError says what to do about it.
func listenError(network, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s %s: another process listens there, perhaps a second agent: "+
			"stop it or choose another address: %w", ErrPortTaken, network, addr, err)
	}
	return fmt.Errorf("transport: listen on %s %s: %w: check that the address belongs to this machine and may be used", network, addr, err)
}

// Addr returns the TCP address, with the port that was picked for port 0; UDP has
// the same.
func (p *Port) Addr() net.Addr { return p.tcp.Addr() }

// PacketConn returns the UDP socket. Gossip alone reads it; Close closes it.
func (p *Port) PacketConn() *net.UDPConn { return p.udp }

// GossipConns returns the channel of accepted gossip streams. Whoever receives
// one owns and closes it; its first byte has not been consumed and no deadline is
// set. The channel is never closed: stop receiving when gossip stops.
func (p *Port) GossipConns() <-chan net.Conn { return p.gossip }

// Stats returns the counters. It does not block.
func (p *Port) Stats() PortStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open = int64(len(p.conns))
	return s
}

// Close closes both sockets and every connection that came in over this Port and
// is still open, whoever owns it, and waits for the Port's goroutines. A second
// Close does nothing.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.wg.Wait()
		return nil
	}
	p.closed = true
	p.locks = nil
	open := make([]*portConn, 0, len(p.conns))
	for c := range p.conns {
		open = append(open, c)
	}
	p.mu.Unlock()
	close(p.done)
	err := errors.Join(p.tcp.Close(), p.udp.Close())
	for _, c := range open {
		_ = c.Close() // what a connection says while it is thrown away helps nobody
	}
	p.wg.Wait()
	return err
}

// setLocks names who takes lock connections; nil means nobody. take must not
// block. It returns false when somebody does already, or the Port is closed.
func (p *Port) setLocks(take func(net.Conn)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if take != nil && (p.locks != nil || p.closed) {
		return false
	}
	p.locks = take
	return true
}

// accept takes connections until the Port is closed.
func (p *Port) accept() {
	pause := acceptPause
	for {
		raw, err := p.tcp.AcceptTCP()
		if err == nil {
			pause = acceptPause
			p.admit(raw)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-p.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// admit counts a connection in and looks at its first byte, or closes it.
func (p *Port) admit(raw *net.TCPConn) {
	c := &portConn{Conn: raw, port: p}
	p.mu.Lock()
	p.stats.Accepted++
	if p.closed || len(p.conns) >= p.cfg.MaxConns {
		p.stats.Rejected++
		p.mu.Unlock()
		_ = raw.Close()
		return
	}
	p.conns[c] = struct{}{}
	p.wg.Go(func() { p.sniff(c) })
	p.mu.Unlock()
	setSocketOptions(raw)
}

// sniff reads the first byte and passes the connection on.
func (p *Port) sniff(c *portConn) {
	if err := c.SetReadDeadline(time.Now().Add(p.cfg.Handshake)); err != nil {
		p.refuse(c, &p.stats.Silent)
		return
	}
	if _, err := io.ReadFull(c.Conn, c.first[:]); err != nil {
		p.refuse(c, &p.stats.Silent)
		return
	}
	c.unread = true
	switch b := c.first[0]; {
	case b == preamble[0]:
		p.passLock(c)
	case b <= maxGossipType || b == gossipLabelMark:
		p.passGossip(c)
	default:
		p.refuse(c, &p.stats.Strange)
	}
}

// passLock gives the connection to the lock transport, with the deadline of the
// handshake still running.
func (p *Port) passLock(c *portConn) {
	p.mu.Lock()
	take := p.locks
	p.mu.Unlock()
	if take == nil {
		p.refuse(c, &p.stats.Rejected)
		return
	}
	take(c)
}

func (p *Port) passGossip(c *portConn) {
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		p.refuse(c, &p.stats.Silent)
		return
	}
	select {
	case p.gossip <- c:
	default:
		p.refuse(c, &p.stats.Rejected)
	}
}

// refuse closes the connection and counts why.
func (p *Port) refuse(c *portConn, why *uint64) {
	p.mu.Lock()
	*why++
	p.mu.Unlock()
	_ = c.Close()
}

// portConn is an accepted connection whose first byte can be read again and whose
// end is counted.
type portConn struct {
	net.Conn
	port   *Port
	first  [1]byte
	unread bool // first has not been read again; touched by the reader only
}

// Read returns the sniffed byte first.
func (c *portConn) Read(b []byte) (int, error) {
	if c.unread && len(b) > 0 {
		c.unread = false
		b[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// Close closes the connection and makes room for another.
func (c *portConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.conns, c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the outgoing half.
func (c *portConn) CloseWrite() error { return closeWrite(c.Conn) }

// halfCloser is a connection whose outgoing half can end first. TCP and TLS
// connections are.
type halfCloser interface{ CloseWrite() error }

// closeWrite ends the outgoing half, so that the other end reads all that was
// sent: a full close with unread input would throw it away.
func closeWrite(c net.Conn) error {
	if h, ok := c.(halfCloser); ok {
		return h.CloseWrite()
	}
	return nil
}

// dialTCP opens a connection with this package's socket options. The host name is
// resolved anew.
func dialTCP(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	setSocketOptions(c)
	return c, nil
}
