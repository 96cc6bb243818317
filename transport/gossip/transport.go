package gossip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Every node advertises this address, which is reserved for documentation and never
// dialed: the transport goes by names.
const (
	placeholderIP   = "192.0.2.1"
	placeholderPort = 7946
)

const (
	maxPacket    = 64 << 10
	recentPings  = 256 // more than one member can have open: its own and one for each other member
	readBackoff  = 10 * time.Millisecond
	maxBackoff   = time.Second
	injectPeriod = 100 * time.Millisecond // for memberlist to take the acks at shutdown
)

var errShutdown = errors.New("gossip: closed")

// netTransport lets memberlist talk over the shared port, to peers by name.
type netTransport struct {
	label   string
	packets net.PacketConn
	inbound <-chan net.Conn
	table   *table
	dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	log     *logWriter

	packetCh chan *memberlist.Packet // unbuffered: a packet sent has been taken
	streamCh chan net.Conn

	ctx    context.Context //nolint:containedctx // memberlist's calls bring none; it ends at Shutdown
	cancel context.CancelFunc
	wg     sync.WaitGroup

	refused  atomic.Uint64 // packets dropped by the guard
	pinged   func(name string)
	answered func(name string)

	mu      sync.Mutex // leaf
	closed  bool
	streams map[*stream]struct{}
	inCount int                   // inbound among streams
	pings   [recentPings]sentPing // the last ones
	pingAt  int
}

// sentPing is a ping that was sent; number 0 is none.
type sentPing struct {
	number uint32
	to     string
}

var _ memberlist.NodeAwareTransport = (*netTransport)(nil)

func newTransport(cfg *Config, t *table, v *view, logTo *logWriter) *netTransport {
	ctx, cancel := context.WithCancel(context.Background())
	dial := cfg.dial
	if dial == nil {
		dial = dialTCP
	}
	return &netTransport{
		label: cfg.Cluster, packets: cfg.Packets, inbound: cfg.Conns, table: t, dial: dial, log: logTo,
		packetCh: make(chan *memberlist.Packet), streamCh: make(chan net.Conn),
		pinged: v.pinged, answered: v.answered,
		ctx: ctx, cancel: cancel, streams: make(map[*stream]struct{}),
	}
}

func dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

// start begins to read.
func (t *netTransport) start() {
	t.wg.Go(t.readPackets)
	t.wg.Go(t.takeStreams)
	t.wg.Go(func() { t.table.run(t.ctx) })
}

// FinalAdvertiseAddr returns the placeholder.
func (t *netTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(placeholderIP).To4(), placeholderPort, nil
}

// PacketCh brings packets that passed the guard.
func (t *netTransport) PacketCh() <-chan *memberlist.Packet { return t.packetCh }

// StreamCh brings inbound connections.
func (t *netTransport) StreamCh() <-chan net.Conn { return t.streamCh }

// WriteTo has no name to go by and refuses.
func (t *netTransport) WriteTo([]byte, string) (time.Time, error) {
	return time.Time{}, remoteFault("write", "udp", errNotListed)
}

// DialTimeout has no name to go by and refuses.
func (t *netTransport) DialTimeout(string, time.Duration) (net.Conn, error) {
	return nil, remoteFault("dial", "tcp", errNotListed)
}

// remoteFault dresses an error so that memberlist counts it as a fault of the
// other side. It then asks other members to probe, instead of ending the probe with
// no result.
func remoteFault(op, network string, err error) error {
	return &net.OpError{Op: op, Net: network, Err: err}
}

// WriteToAddress sends a packet to a name, without waiting for a name server.
func (t *netTransport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	if !t.notePing(b, to.Name) {
		return time.Time{}, errShutdown
	}
	addr, err := t.table.packetAddr(to.Name)
	if err != nil {
		return time.Time{}, remoteFault("write", "udp", err)
	}
	_, err = t.packets.WriteTo(b, net.UDPAddrFromAddrPort(addr))
	return time.Now(), err
}

// DialAddressTimeout connects to a name. It looks the host up again, tries its
// addresses in turn and takes at most timeout or 2 s.
func (t *netTransport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, min(timeout, dialTimeout))
	defer cancel()
	p, addrs, err := t.table.streamAddrs(ctx, to.Name)
	if err != nil {
		return nil, remoteFault("dial", "tcp", err)
	}
	var failed error
	for i, addr := range addrs {
		conn, err := t.dialOne(ctx, addr, len(addrs)-i)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		t.table.prefer(p, addr)
		return t.adopt(conn, false)
	}
	return nil, failed
}

// dialOne gives one of the remaining addresses its share of the time left.
func (t *netTransport) dialOne(ctx context.Context, addr netip.AddrPort, remaining int) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	share := time.Until(deadline) / time.Duration(remaining)
	ctx, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	return t.dial(ctx, addr)
}

// adopt puts a connection on the books, so that Shutdown can close it, and gives
// it a deadline until memberlist sets one.
func (t *netTransport) adopt(conn net.Conn, inbound bool) (net.Conn, error) {
	s := newStream(conn, t.label, inbound, t.release)
	if err := t.book(s); err != nil {
		_ = conn.Close() // it was never used
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(streamTimeout)); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (t *netTransport) book(s *stream) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errShutdown
	}
	if s.inbound {
		if t.inCount >= maxStreams {
			return errors.New("gossip: too many streams at once")
		}
		t.inCount++
	}
	t.streams[s] = struct{}{}
	return nil
}

func (t *netTransport) release(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.streams[s]; !ok {
		return
	}
	delete(t.streams, s)
	if s.inbound {
		t.inCount--
	}
}

// takeStreams hands inbound connections on until the transport or the channel is
// closed.
func (t *netTransport) takeStreams() {
	for {
		var conn net.Conn
		var ok bool
		select {
		case conn, ok = <-t.inbound:
		case <-t.ctx.Done():
			return
		}
		if !ok {
			return
		}
		s, err := t.adopt(conn, true)
		if err != nil {
			t.log.debugf("gossip: connection from %v refused: %v", conn.RemoteAddr(), err)
			continue
		}
		select {
		case t.streamCh <- s:
		case <-t.ctx.Done():
			_ = s.Close() // nobody will serve it
			return
		}
	}
}

// Shutdown stops reading, closes every connection and ends what memberlist still
// waits for. It returns when all goroutines of the transport have ended. The
// packet socket stays open: it belongs to the owner of the port.
func (t *netTransport) Shutdown() error {
	if !t.close() {
		t.wg.Wait()
		return nil
	}
	t.cancel()
	// A deadline in the past ends the read that is under way.
	err := t.packets.SetReadDeadline(time.Unix(1, 0))
	t.wg.Wait()
	t.answerPings()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	if err := t.packets.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// close refuses everything new and closes all streams. It reports whether this
// was the first call.
func (t *netTransport) close() bool {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return false
	}
	t.closed = true
	open := make([]*stream, 0, len(t.streams))
	for s := range t.streams {
		open = append(open, s)
	}
	t.mu.Unlock()
	for _, s := range open {
		_ = s.Close() // the other side finds out by itself
	}
	return true
}

// answerPings answers the pings sent last in the name of whoever has not.
// memberlist's prober sleeps through Shutdown until its ping is answered or has timed
// out, which is up to 40 s with the WAN timing; so does the goroutine
// of a ping sent on behalf of another member. Nothing that they conclude gets out
// any more: the transport refuses to send, and no event is delivered.
func (t *netTransport) answerPings() {
	t.mu.Lock()
	pings := t.pings
	t.mu.Unlock()
	patience := time.NewTimer(injectPeriod)
	defer patience.Stop()
	from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(placeholderIP), placeholderPort))
	for _, ping := range pings {
		if ping.number == 0 {
			continue
		}
		packet := &memberlist.Packet{Buf: ackPacket(t.label, ping.number), From: from, Timestamp: time.Now()}
		select {
		case t.packetCh <- packet:
		case <-patience.C:
			return
		}
	}
}
