package transport

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node"
)

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
