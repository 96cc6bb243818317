package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treequorum/dmutex/node"
)

// newFabric checks for goroutines left once all is closed.
func newFabric(t *testing.T) *tcpFabric {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	return newTCPFabric()
}

// frame puts a length in front.
func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// opening is the preamble and a hello.
func opening(t *testing.T, h hello) []byte {
	t.Helper()
	out, err := h.appendFrame([]byte(preamble))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func clientHello(name, expected string) hello {
	return hello{version: ProtocolVersion, role: roleClient, cluster: "test", name: name, expected: expected}
}

// hostileFrames are connections that break the rules at once, hostileSilence those
// that stop in the middle.
func hostileFrames(t *testing.T) map[string]string {
	t.Helper()
	m := request("x", "b", 1)
	message, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	good := string(opening(t, clientHello("x", "b")))
	return map[string]string{
		"another framing version": "DMX\x02",
		"a message for a hello":   preamble + string(frame(message)),
		"hello of 2 KiB":          preamble + "\x00\x00\x08\x00",
		"garbage for a hello":     preamble + string(frame([]byte("garbage"))),
		"short hello":             preamble + string(frame([]byte("\x92\x00\x01"))),
		"this node's own name":    string(opening(t, clientHello("b", "b"))),
		"header of 100 MB":        good + "\x06\x40\x00\x00",
		"header of 4 GiB":         good + "\xff\xff\xff\xff",
		"header of 64 KiB + 1":    good + "\x00\x01\x00\x01",
		"header of 0":             good + "\x00\x00\x00\x00",
		"garbage frame":           good + string(frame([]byte("garbage"))),
		"array of 2^32 items":     good + string(frame([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})),
		"deep nesting":            good + string(frame([]byte(strings.Repeat("\x91", 60_000)))),
		"a second hello":          good + good[len(preamble):],
	}
}

func hostileSilence(t *testing.T) map[string]string {
	t.Helper()
	good := string(opening(t, clientHello("x", "b")))
	return map[string]string{
		"nothing":         "",
		"half a preamble": "DM",
		"no hello":        preamble,
		"half a hello":    good[:len(good)-1],
		"half a header":   good + "\x00\x00",
		"half a frame":    good + "\x00\x00\x01\x00abc",
		"one of 64 KiB":   good + "\x00\x01\x00\x00abc",
	}
}

// TestHostileConnections: each is closed, at once or when its time is over, without
// a panic and with little memory, while a proper connection goes on.
func TestHostileConnections(t *testing.T) {
	for kind, hostile := range map[string]map[string]string{"at once": hostileFrames(t), "in time": hostileSilence(t)} {
		t.Run(kind, func(t *testing.T) {
			f := newFabric(t)
			if kind == "at once" {
				f.lim.Handshake, f.lim.Read = time.Minute, time.Minute
			}
			hb := newRecorder()
			f.start(t, "b", false, hb)
			a := f.start(t, "a", false, newRecorder())
			a.Send(request("a", "b", 0))
			hb.waitCount(t, 1)
			conns := make(map[string]net.Conn)
			grown := heapGrowth(func() {
				for name, bytes := range hostile {
					conns[name] = dialPort(t, f.ports["b"], bytes)
				}
				for name, c := range conns {
					t.Log(name)
					waitClosed(t, c, patience)
				}
			})
			if grown > 4<<20 {
				t.Errorf("allocated %d bytes, want less than 4 MiB", grown)
			}
			a.Send(request("a", "b", 2))
			if got := hb.waitCount(t, 2); len(got) != 2 || got[1].ID.Counter != 2 {
				t.Errorf("b got %+v, want the two messages of a", got)
			}
			if n := len(hb.mismatches); n != 0 {
				t.Errorf("%d mismatches reported: %v, want none", n, hb.mismatches)
			}
		})
	}
}

// TestSlowloris: a byte now and then does not keep a started frame alive.
func TestSlowloris(t *testing.T) {
	f := newFabric(t)
	hb := newRecorder()
	f.start(t, "b", false, hb)
	for _, first := range []string{preamble, string(opening(t, clientHello("x", "b")))} {
		c := dialPort(t, f.ports["b"], first+"\x00\x00\x04\x00")
		started := time.Now()
		tick := time.NewTicker(f.lim.Read / 10)
		for {
			<-tick.C
			if _, err := c.Write([]byte{1}); err != nil {
				break
			}
			if time.Since(started) > 10*f.lim.Read {
				t.Fatalf("a frame was still being read after %v, want an end at %v", time.Since(started), f.lim.Read)
			}
		}
		tick.Stop()
	}
}

// TestQuietConnectionStays: no deadline of the handshake, or of a frame that came in
// two parts, is left on at either end.
func TestQuietConnectionStays(t *testing.T) {
	f := newFabric(t)
	f.lim.Handshake, f.lim.Read = 50*time.Millisecond, 50*time.Millisecond
	hb, hc := newRecorder(), newRecorder()
	b := f.start(t, "b", false, hb)
	client := f.start(t, "c", true, hc)
	client.Send(request("c", "b", 1))
	x := dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b"))))
	m := request("x", "b", 2)
	p, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	pause := func() { <-time.After(4 * f.lim.Read) } // longer than anything left over
	send := func(bytes []byte) {
		if _, err := x.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	pause()
	send(frame(p)[:10])
	<-time.After(f.lim.Read / 5)
	send(frame(p)[10:])
	hb.waitCount(t, 2)
	pause()
	send(frame(p))
	hb.waitCount(t, 3)
	b.Send(grant("b", "c", 3))
	hc.waitCount(t, 1)
	if s := client.Stats(); s.Dials != 1 {
		t.Errorf("the client dialed %d times, want once", s.Dials)
	}
}

// TestMisaddressed: nobody speaks for another, or in another's role.
func TestMisaddressed(t *testing.T) {
	f := newFabric(t)
	hb := newRecorder()
	b := f.start(t, "b", false, hb)
	out := opening(t, clientHello("x", "b"))
	for _, m := range []node.Message{
		request("y", "b", 1), // another sender than the hello named
		request("x", "c", 2), // for another receiver
		grant("x", "b", 3),   // an answer from the side that asks
		request("x", "b", 4),
	} {
		p, err := AppendMessage(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, frame(p)...)
	}
	dialPort(t, f.ports["b"], string(out))
	if got := hb.waitCount(t, 1); len(got) != 1 || got[0].ID.Counter != 4 {
		t.Errorf("b got %+v, want only the last message", got)
	}
	if s := b.Stats(); s.Misaddressed != 3 || s.DecodeErrors != 0 {
		t.Errorf("counted %+v, want 3 misaddressed", s)
	}
}

// TestMismatch: both sides say what differs, and nothing is delivered.
func TestMismatch(t *testing.T) {
	cases := map[string]struct {
		kind   MismatchKind
		change func(f *tcpFabric, b *TCP)
		dialed [2]string // want, got at the side that dials
		other  [2]string
	}{
		"cluster": {MismatchCluster, func(_ *tcpFabric, b *TCP) { b.own.cluster = "prod" }, [2]string{"test", "prod"}, [2]string{"prod", "test"}},
		"version": {MismatchVersion, func(_ *tcpFabric, b *TCP) { b.own.version = 2 }, [2]string{"1", "2"}, [2]string{"2", "1"}},
		"name":    {MismatchName, func(f *tcpFabric, _ *TCP) { f.addrs["c"] = f.addrs["b"] }, [2]string{"c", "b"}, [2]string{"b", "c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t)
			ha, hb := newRecorder(), newRecorder()
			a := f.start(t, "a", false, ha)
			f.start(t, "b", false, hb)
			c.change(f, f.live["b"])
			to := "b"
			if c.kind == MismatchName {
				to = "c"
			}
			a.Send(request("a", to, 1))
			one := func(r *recorder) bool { return len(r.mismatches) > 0 }
			ha.wait(t, "a mismatch at the side that dials", one)
			hb.wait(t, "a mismatch at the other side", one)
			checkMismatch(t, ha.mismatches[0], Mismatch{Kind: c.kind, Peer: to, Want: c.dialed[0], Got: c.dialed[1]})
			checkMismatch(t, hb.mismatches[0], Mismatch{Kind: c.kind, Peer: "a", Inbound: true, Want: c.other[0], Got: c.other[1]})
			if len(hb.messages) != 0 {
				t.Errorf("b got %+v", hb.messages)
			}
		})
	}
}

func checkMismatch(t *testing.T, got, want Mismatch) {
	t.Helper()
	if got.Addr == "" {
		t.Errorf("%+v has no address", got)
	}
	got.Addr = ""
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text := got.String(); !strings.Contains(text, got.Kind.String()) || !strings.Contains(text, fmt.Sprintf("%q", want.Got)) {
		t.Errorf("the text %q does not say what differs", text)
	}
}

// TestManyConnectionsOfOneName: the oldest gives way, the newest gets the answers.
func TestManyConnectionsOfOneName(t *testing.T) {
	f := newFabric(t)
	b := f.start(t, "b", false, newRecorder())
	var conns []net.Conn
	const limit = 8
	for i := range limit + 2 {
		conns = append(conns, dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b")))))
		eventually(t, "the connection to be taken", func() bool {
			s := b.Stats()
			return s.Inbound == int64(min(i+1, limit)) && s.Replaced == uint64(max(0, i+1-limit))
		})
	}
	waitClosed(t, conns[0], patience)
	waitClosed(t, conns[1], patience)
	b.Send(grant("b", "x", 1))
	br := bufio.NewReader(conns[limit+1])
	if err := conns[limit+1].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := readHello(br); err != nil {
		t.Fatal(err)
	}
	p, err := readPayload(br, nil, MaxFrame)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := DecodeMessage(p, nil); err != nil || m != grant("b", "x", 1) {
		t.Errorf("the newest connection got %+v, %v", m, err)
	}
}

// TestSlowReader: a peer that never reads is given up after the write time-out,
// and does not hold others up.
func TestSlowReader(t *testing.T) {
	f := newFabric(t)
	f.lim.Write = 100 * time.Millisecond
	b := f.start(t, "b", false, newRecorder())
	dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b"))))
	eventually(t, "the connection", func() bool { return b.Stats().Inbound == 1 })
	m := grant("b", "x", 1)
	m.Lock = strings.Repeat("n", MaxLockName)
	eventually(t, "the connection to be closed", func() bool {
		for range 1000 {
			b.Send(m)
		}
		s := b.Stats()
		return s.Inbound == 0 && s.DroppedBroken > 0
	})
}

// blackHole accepts and then neither reads nor answers.
func blackHole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestCloseIsPrompt: with peers that are down, silent, or stuck after the hello,
// Close still ends in time and leaves nothing.
func TestCloseIsPrompt(t *testing.T) {
	f := newFabric(t)
	f.lim.Handshake = time.Minute // only Close can end it
	hb := newRecorder()
	f.start(t, "b", false, hb)
	f.addrs["hole"] = blackHole(t)
	f.addrs["down"] = "127.0.0.1:1"
	a := f.start(t, "a", false, newRecorder())
	for _, to := range []string{"b", "hole", "down"} {
		a.Send(request("a", to, 1))
	}
	hb.waitCount(t, 1)
	hb.stick(t) // b stops reading: its side of the connection stays open
	silent := dialPort(t, f.ports["a"], preamble)
	eventually(t, "the dials and the silent connection", func() bool {
		tr := f.live["a"]
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return a.Stats().Dials >= 3 && len(tr.pending) == 1
	})
	a.Send(request("a", "b", 2))
	a.Send(request("a", "b", 3))
	started := time.Now()
	closeNow(t, a)
	if took := time.Since(started); took > f.lim.Drain+time.Second {
		t.Errorf("Close took %v, want about %v at most", took, f.lim.Drain)
	}
	waitClosed(t, silent, patience)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(ctx); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// TestGoodbyeGetsOut: what was sent just before Close arrives, though megabytes are
// still on the way to a slow receiver, and though there is input that this side
// will not read: closing at once would reset the connection and lose it all.
func TestGoodbyeGetsOut(t *testing.T) {
	f := newFabric(t)
	f.lim.Drain = patience
	ha, hb := newRecorder(), newRecorder()
	a, b := f.start(t, "a", false, ha), f.start(t, "b", false, hb)
	a.Send(request("a", "b", 1))
	hb.waitCount(t, 1)
	releaseA, releaseB := ha.stick(t), hb.stick(t)
	for i := range 500 {
		b.Send(grant("b", "a", i))
	}
	for i := 0; a.Stats().DroppedFull == 0; i++ {
		if i > 1_000_000 {
			t.Fatalf("a million messages in, nothing was dropped: %+v", a.Stats())
		}
		a.Send(request("a", "b", i))
	}
	bye := sample(node.MsgGoodbye)
	bye.From, bye.To = "a", "b"
	a.Send(bye)
	closed := make(chan error, 1)
	go func() { closed <- a.Close(t.Context()) }()
	<-f.live["a"].closing
	releaseB()
	hb.wait(t, "the goodbye", func(r *recorder) bool { return r.messages[len(r.messages)-1] == bye })
	releaseA()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestNothingIsDeliveredWhileClosing: the handler's owner is on its way out.
func TestNothingIsDeliveredWhileClosing(t *testing.T) {
	h := newRecorder()
	tr, err := NewTCP(TCPConfig{Name: "a", Client: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(h); err != nil {
		t.Fatal(err)
	}
	l := newLink(tr, nil, nil, "b", false, nil)
	l.deliver(grant("b", "a", 1))
	closeNow(t, tr)
	l.deliver(grant("b", "a", 2))
	if len(h.messages) != 1 {
		t.Errorf("delivered %d messages, want the one before Close", len(h.messages))
	}
}

// TestStaleMessagesAreNotSent: what waited too long for a connection is dropped.
func TestStaleMessagesAreNotSent(t *testing.T) {
	f := newFabric(t)
	f.lim.QueueAge = 30 * time.Millisecond
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", false, ha)
	f.start(t, "b", false, newRecorder())
	f.stop(t, "b")
	a.Send(request("a", "b", 1))
	ha.wait(t, "a refusal", func(r *recorder) bool { return r.refused["b"] > 0 })
	<-time.After(2 * f.lim.QueueAge)
	f.start(t, "b", false, hb)
	eventually(t, "the reconnect", func() bool { return a.Stats().Outbound == 1 })
	a.Send(request("a", "b", 2))
	if got := hb.waitCount(t, 1); got[0].ID.Counter != 2 {
		t.Errorf("b got number %d first, want 2", got[0].ID.Counter)
	}
	if s := a.Stats(); s.DroppedStale != 1 {
		t.Errorf("%d dropped as stale, want 1", s.DroppedStale)
	}
}

// TestRedial: a connection that ends is dialed again without another Send, so
// that answers can come in.
func TestRedial(t *testing.T) {
	f := newFabric(t)
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", true, ha)
	f.start(t, "b", false, hb)
	a.Send(request("a", "b", 1))
	hb.waitCount(t, 1)
	f.stop(t, "b")
	b := f.start(t, "b", false, newRecorder())
	eventually(t, "an answer after the restart", func() bool {
		b.Send(grant("b", "a", 1))
		ha.mu.Lock()
		defer ha.mu.Unlock()
		return len(ha.messages) > 0
	})
}

// TestBackoff: the bounds double up to the cap, the draws differ, and the same
// seed draws the same.
func TestBackoff(t *testing.T) {
	draw := func(seed uint64, failures int) time.Duration {
		tr, err := NewTCP(TCPConfig{Name: "a", Client: true, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(tr, "b")
		p.failures = failures
		return p.backoff()
	}
	for failures, bound := range map[int]time.Duration{
		1: 20 * time.Millisecond, 2: 40 * time.Millisecond, 6: 640 * time.Millisecond, 7: time.Second, 1000: time.Second,
	} {
		var highest time.Duration
		for seed := range uint64(200) {
			d := draw(seed, failures)
			if d < 0 || d > bound {
				t.Fatalf("seed %d, %d failures: %v, want at most %v", seed, failures, d, bound)
			}
			if d != draw(seed, failures) {
				t.Fatalf("seed %d draws two different waits", seed)
			}
			highest = max(highest, d)
		}
		if highest < bound*9/10 {
			t.Errorf("%d failures: highest of 200 draws is %v, want close to %v", failures, highest, bound)
		}
	}
}

// TestIsRefusal: which errors hint that a peer is down.
func TestIsRefusal(t *testing.T) {
	timeout := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	for err, want := range map[error]bool{
		syscall.ECONNREFUSED: true, syscall.ECONNRESET: true, syscall.EHOSTUNREACH: true, io.EOF: true,
		syscall.EMFILE: false, syscall.EADDRNOTAVAIL: false, context.Canceled: false, timeout: false,
	} {
		if got := isRefusal(fmt.Errorf("dial: %w", err)); got != want {
			t.Errorf("isRefusal(%v) = %v, want %v", err, got, want)
		}
	}
}

// TestNewTCPRefuses: every fault of a configuration is named at once.
func TestNewTCPRefuses(t *testing.T) {
	_, err := NewTCP(TCPConfig{Name: "", Cluster: "a\nb", Peers: map[string]string{"p": "no port", "": "h:1"}})
	if !errors.Is(err, ErrInvalidConfig) {
		t.Fatalf("got %v, want ErrInvalidConfig", err)
	}
	for _, part := range []string{"Name", "Cluster", "Port", `peer "p"`, `peer name ""`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	p := listen(t, PortConfig{})
	if _, err := NewTCP(TCPConfig{Name: "a", Client: true, Port: p}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("a client with a port: %v, want ErrInvalidConfig", err)
	}
}

// TestOnePortOneTransport: two transports cannot share a port; one after the other
// can.
func TestOnePortOneTransport(t *testing.T) {
	p := listen(t, PortConfig{})
	start := func(name string) (*TCP, error) {
		tr, err := NewTCP(TCPConfig{Name: name, Port: p})
		if err != nil {
			t.Fatal(err)
		}
		return tr, tr.Start(newRecorder())
	}
	a, err := start("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := start("b")
	if err == nil {
		t.Error("a second transport took the port")
	}
	closeNow(t, a)
	closeNow(t, b)
	c, err := start("c")
	if err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	closeNow(t, c)
}

// TestBatching: messages sent together leave in few writes.
func TestBatching(t *testing.T) {
	f := newFabric(t)
	hb := newRecorder()
	a := f.start(t, "a", false, newRecorder())
	f.start(t, "b", false, hb)
	for i := range 1000 { // queued while the dial is under way
		a.Send(request("a", "b", i))
	}
	hb.waitCount(t, 1000)
	eventually(t, "all frames to be counted", func() bool { return a.Stats().FramesOut == 1000 })
	if s := a.Stats(); s.Writes > 100 {
		t.Errorf("%d frames in %d writes, want 100 writes at most", s.FramesOut, s.Writes)
	}
}

// echo answers each request.
type echo struct {
	recorder
	tr Transport
}

func (e *echo) Deliver(m node.Message) { e.tr.Send(grant(m.To, m.From, int(m.ID.Counter))) }

// signal counts deliveries and reports each.
type signal struct {
	recorder
	got chan struct{}
	n   atomic.Int64
}

func (s *signal) Deliver(node.Message) {
	s.n.Add(1)
	select {
	case s.got <- struct{}{}:
	default:
	}
}

// pair is two connected nodes for benchmarks.
func pair(b *testing.B, ha, hb Handler, setB func(Transport)) *TCP {
	b.Helper()
	port, err := Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	member, err := NewTCP(TCPConfig{Name: "b", Port: port})
	if err != nil {
		b.Fatal(err)
	}
	setB(member)
	client, err := NewTCP(TCPConfig{Name: "a", Client: true, Peers: map[string]string{"b": port.Addr().String()}})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(member.Start(hb), client.Start(ha)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		closeNow(b, client)
		closeNow(b, member)
		if err := port.Close(); err != nil {
			b.Error(err)
		}
	})
	return client
}

func BenchmarkEchoRoundTrip(b *testing.B) {
	ha, hb := &signal{got: make(chan struct{}, 1)}, &echo{}
	a := pair(b, ha, hb, func(t Transport) { hb.tr = t })
	m := request("a", "b", 1)
	b.ReportAllocs()
	for b.Loop() {
		a.Send(m)
		<-ha.got
	}
}

func BenchmarkThroughput(b *testing.B) {
	hb := &signal{got: make(chan struct{}, 1)}
	a := pair(b, &signal{}, hb, func(Transport) {})
	m := request("a", "b", 1)
	b.ReportAllocs()
	sent := int64(0)
	for b.Loop() {
		a.Send(m)
		for sent++; sent-hb.n.Load() > 512; {
			<-hb.got // stay below the bound of the queue: nothing is lost
		}
	}
	s := a.Stats()
	b.ReportMetric(float64(s.FramesOut)/float64(max(s.Writes, 1)), "frames/write")
	b.ReportMetric(float64(s.DroppedFull+s.DroppedStale), "dropped")
}
