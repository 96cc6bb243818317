package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// newFabric checks for goroutines left once all is closed.
func newFabric(t *testing.T) *tcpFabric {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	return newTCPFabric()
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
