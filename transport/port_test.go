package transport

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func listen(t *testing.T, cfg PortConfig) *Port {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	p, err := ListenConfig("127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

// dialPort connects and sends the first bytes.
func dialPort(t *testing.T, p *Port, first string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, first); err != nil {
		t.Fatal(err)
	}
	return c
}

// waitClosed waits until the other end has closed the connection, and returns
// what it sent before.
func waitClosed(t *testing.T, c net.Conn, within time.Duration) []byte {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Fatalf("still open after %v", within)
	}
	return got
}

func TestPortTellsProtocolsApart(t *testing.T) {
	p := listen(t, PortConfig{})
	locks := make(chan net.Conn, 1)
	if !p.setLocks(func(c net.Conn) { locks <- c }) {
		t.Fatal("nobody may take lock connections")
	}
	for _, first := range []string{"\x00", "\x05gossip", "\x0d", "\xf4label"} {
		dialPort(t, p, first)
		checkFirst(t, p.GossipConns(), first)
	}
	dialPort(t, p, preamble)
	checkFirst(t, locks, preamble)
	for _, first := range []string{"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "\x0e", "\xff", "SSH-2.0-x\r\n"} {
		waitClosed(t, dialPort(t, p, first), patience)
	}
	if s := p.Stats(); s.Accepted != 10 || s.Strange != 5 || s.Open != 5 {
		t.Errorf("counted %+v, want 10 accepted, 5 strange, 5 open", s)
	}
}

// checkFirst takes a connection and reads what was sent, the first byte included.
func checkFirst(t *testing.T, conns <-chan net.Conn, want string) {
	t.Helper()
	select {
	case c := <-conns:
		t.Cleanup(func() { _ = c.Close() })
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
	case <-time.After(patience):
		t.Fatalf("a connection that starts with %q was not handed out", want)
	}
}

func TestPortSharesUDP(t *testing.T) {
	p := listen(t, PortConfig{})
	if got, want := p.PacketConn().LocalAddr().String(), p.Addr().String(); got != want {
		t.Fatalf("UDP on %s, TCP on %s, want the same", got, want)
	}
	c, err := net.Dial("udp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Fatal(err)
	}
	var buf [16]byte
	if err := p.PacketConn().SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, _, err := p.PacketConn().ReadFromUDP(buf[:])
	if err != nil || string(buf[:n]) != "ping" {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
}

func TestListenErrors(t *testing.T) {
	p := listen(t, PortConfig{})
	if _, err := Listen(p.Addr().String()); !errors.Is(err, ErrPortTaken) {
		t.Errorf("TCP taken: %v, want ErrPortTaken", err)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	if _, err := Listen(udp.LocalAddr().String()); !errors.Is(err, ErrPortTaken) {
		t.Errorf("UDP taken: %v, want ErrPortTaken", err)
	}
	// The TCP half of the failed attempt must not stay behind.
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	if err != nil {
		t.Fatalf("the TCP port is still held: %v", err)
	}
	_ = tcp.Close()
	for _, addr := range []string{"no port", "127.0.0.1:99999", "192.0.2.1:0"} {
		if p, err := Listen(addr); err == nil || errors.Is(err, ErrPortTaken) {
			t.Errorf("Listen(%q) = %v, %v, want another error", addr, p, err)
		}
	}
}

func TestPortLimits(t *testing.T) {
	p := listen(t, PortConfig{Handshake: 50 * time.Millisecond, MaxConns: 3, GossipBacklog: 2})
	waitClosed(t, dialPort(t, p, ""), patience) // says nothing
	waitClosed(t, dialPort(t, p, preamble), patience)
	dialPort(t, p, "\x00")
	dialPort(t, p, "\x00")
	eventually(t, "a full backlog", func() bool { return len(p.GossipConns()) == 2 })
	waitClosed(t, dialPort(t, p, "\x00"), patience) // no room in the backlog
	checkFirst(t, p.GossipConns(), "\x00")
	dialPort(t, p, "\x01")
	eventually(t, "three open connections", func() bool { return p.Stats().Open == 3 && len(p.GossipConns()) == 2 })
	waitClosed(t, dialPort(t, p, ""), patience) // no room at all
	if s := p.Stats(); s.Silent != 1 || s.Rejected != 3 {
		t.Errorf("counted %+v, want 1 silent and 3 rejected", s)
	}
	// A closed connection makes room.
	if err := (<-p.GossipConns()).Close(); err != nil {
		t.Fatal(err)
	}
	dialPort(t, p, "\x02")
	eventually(t, "room for another", func() bool { return p.Stats().Open == 3 })
}

// TestGossipStreamMayBeQuiet: the deadline of the first byte does not stay on.
func TestGossipStreamMayBeQuiet(t *testing.T) {
	p := listen(t, PortConfig{Handshake: 50 * time.Millisecond})
	client := dialPort(t, p, "\x00")
	c := <-p.GossipConns()
	defer func() { _ = c.Close() }()
	late := time.AfterFunc(3*p.cfg.Handshake, func() { _, _ = io.WriteString(client, "x") })
	defer late.Stop()
	var got [2]byte
	if _, err := io.ReadFull(c, got[:]); err != nil || string(got[:]) != "\x00x" {
		t.Errorf("read %q, %v, want both bytes", got, err)
	}
}

// TestPortClose ends connections in every state.
func TestPortClose(t *testing.T) {
	p := listen(t, PortConfig{})
	silent, taken := dialPort(t, p, ""), dialPort(t, p, "\x01")
	checkFirst(t, p.GossipConns(), "\x01")
	waiting := dialPort(t, p, "\x00")
	eventually(t, "three open connections", func() bool { return p.Stats().Open == 3 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{silent, waiting, taken} {
		waitClosed(t, c, patience)
	}
	if err := p.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if s := p.Stats(); s.Open != 0 {
		t.Errorf("%d connections open after Close", s.Open)
	}
	if p.setLocks(func(net.Conn) {}) {
		t.Error("a closed port gives out lock connections")
	}
}
