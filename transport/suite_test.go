package transport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treequorum/dmutex/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fabric makes transports of one kind that can reach one another.
type fabric interface {
	// start returns a started transport; a member can be asked, a client not.
	start(t *testing.T, name string, client bool, h Handler) Transport
	// stop closes it, so that the name can start again, elsewhere.
	stop(t *testing.T, name string)
}

// testLimits are short where a test waits for them.
func testLimits() Limits {
	return Limits{
		Handshake: 300 * time.Millisecond, Read: 300 * time.Millisecond,
		BackoffMax: 50 * time.Millisecond, Drain: 200 * time.Millisecond,
	}
}

// tcpFabric runs on loopback. Ports change at each start.
type tcpFabric struct {
	mu    sync.Mutex
	addrs map[string]string
	live  map[string]*TCP
	ports map[string]*Port
	lim   Limits
	seed  uint64
}

func newTCPFabric() *tcpFabric {
	return &tcpFabric{addrs: map[string]string{}, live: map[string]*TCP{}, ports: map[string]*Port{}, lim: testLimits()}
}

func (f *tcpFabric) resolve(name string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	addr, ok := f.addrs[name]
	return addr, ok
}

func (f *tcpFabric) start(t *testing.T, name string, client bool, h Handler) Transport {
	t.Helper()
	cfg := TCPConfig{Name: name, Cluster: "test", Client: client, Resolve: f.resolve, Seed: f.seed, Limits: f.lim}
	f.seed++
	if !client {
		p, err := ListenConfig("127.0.0.1:0", PortConfig{Handshake: f.lim.Handshake})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Port = p
		f.mu.Lock()
		f.addrs[name], f.ports[name] = p.Addr().String(), p
		f.mu.Unlock()
	}
	tr, err := NewTCP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(h); err != nil {
		t.Fatal(err)
	}
	f.live[name] = tr
	t.Cleanup(func() { f.stop(t, name) })
	return tr
}

func (f *tcpFabric) stop(t *testing.T, name string) {
	t.Helper()
	if tr := f.live[name]; tr != nil {
		delete(f.live, name)
		closeNow(t, tr)
	}
	if p := f.ports[name]; p != nil {
		delete(f.ports, name)
		if err := p.Close(); err != nil {
			t.Errorf("closing the port of %s: %v", name, err)
		}
	}
}

// memoryFabric runs in memory, with a little delay.
type memoryFabric struct {
	net  *Network
	live map[string]Transport
}

func newMemoryFabric() *memoryFabric {
	return &memoryFabric{net: NewNetwork(NetworkConfig{Seed: 1, MaxDelay: time.Millisecond}), live: map[string]Transport{}}
}

func (f *memoryFabric) start(t *testing.T, name string, _ bool, h Handler) Transport {
	t.Helper()
	tr := f.net.Join(name)
	if err := tr.Start(h); err != nil {
		t.Fatal(err)
	}
	f.live[name] = tr
	t.Cleanup(func() { f.stop(t, name) })
	return tr
}

func (f *memoryFabric) stop(t *testing.T, name string) {
	t.Helper()
	if tr := f.live[name]; tr != nil {
		delete(f.live, name)
		closeNow(t, tr)
	}
}

// TestSuite holds both transports to the same contract.
func TestSuite(t *testing.T) {
	fabrics := map[string]func() fabric{
		"tcp":    func() fabric { return newTCPFabric() },
		"memory": func() fabric { return newMemoryFabric() },
	}
	tests := map[string]func(*testing.T, fabric){
		"Delivery":        suiteDelivery,
		"Order":           suiteOrder,
		"DropOldest":      suiteDropOldest,
		"Reconnect":       suiteReconnect,
		"RefusedHint":     suiteRefusedHint,
		"Client":          suiteClient,
		"NoRoute":         suiteNoRoute,
		"InvalidMessage":  suiteInvalidMessage,
		"StartAndClose":   suiteStartAndClose,
		"ConcurrentSends": suiteConcurrentSends,
	}
	for kind, makeFabric := range fabrics {
		for name, test := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				// Cleanups run last to first: the check sees everything closed.
				t.Cleanup(func() { goleak.VerifyNone(t) })
				test(t, makeFabric())
			})
		}
	}
}

// suiteDelivery: every type arrives as it was sent, in both directions.
func suiteDelivery(t *testing.T, f fabric) {
	ha, hb := newRecorder(), newRecorder()
	a, b := f.start(t, "a", false, ha), f.start(t, "b", false, hb)
	a.Send(request("a", "b", 1)) // answers need the connection that this opens
	hb.waitCount(t, 1)
	var toB, toA []node.Message
	for _, typ := range allTypes() {
		m := sample(typ)
		if typ.FromMember() {
			m.From, m.To = "b", "a"
			toA = append(toA, m)
			b.Send(m)
			continue
		}
		m.From, m.To = "a", "b"
		toB = append(toB, m)
		a.Send(m)
	}
	for i, m := range hb.waitCount(t, len(toB)+1)[1:] {
		if m != toB[i] {
			t.Errorf("b got %+v, want %+v", m, toB[i])
		}
	}
	for i, m := range ha.waitCount(t, len(toA)) {
		if m != toA[i] {
			t.Errorf("a got %+v, want %+v", m, toA[i])
		}
	}
	// The writer counts after the write, so the message may be here before.
	eventually(t, fmt.Sprintf("a to count %d frames out", len(toB)+1), func() bool {
		s := a.Stats()
		return s.FramesOut == uint64(len(toB)+1) && s.BytesOut > 0
	})
}

// suiteOrder: one connection keeps the order, both ways.
func suiteOrder(t *testing.T, f fabric) {
	const n = 900
	ha, hb := newRecorder(), newRecorder()
	a, b := f.start(t, "a", false, ha), f.start(t, "b", false, hb)
	for i := range n {
		a.Send(request("a", "b", i))
	}
	for i, m := range hb.waitCount(t, n) {
		if int(m.ID.Counter) != i {
			t.Fatalf("message %d is number %d", i, m.ID.Counter)
		}
	}
	for i := range n {
		b.Send(grant("b", "a", i))
	}
	for i, m := range ha.waitCount(t, n) {
		if int(m.Number) != i {
			t.Fatalf("answer %d is number %d", i, m.Number)
		}
	}
}

// suiteDropOldest: a receiver that is stuck never blocks the sender; the oldest
// are lost, the newest arrive once it moves on.
func suiteDropOldest(t *testing.T, f fabric) {
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", false, ha)
	f.start(t, "b", false, hb)
	a.Send(request("a", "b", 0))
	hb.waitCount(t, 1)
	release := hb.stick(t)
	sent := 0
	for a.Stats().DroppedFull < 3000 { // about three queues: not just a burst
		if sent++; sent > 1_000_000 {
			t.Fatalf("a million messages in, nothing was dropped: %+v", a.Stats())
		}
		m := request("a", "b", sent)
		m.Label = strings.Repeat("x", MaxLabel)
		a.Send(m)
	}
	release()
	hb.wait(t, fmt.Sprintf("message %d, the last", sent), func(r *recorder) bool {
		return len(r.messages) > 0 && int(r.messages[len(r.messages)-1].ID.Counter) == sent
	})
	last := -1
	for _, m := range hb.messages {
		if int(m.ID.Counter) <= last {
			t.Fatalf("%d came after %d", m.ID.Counter, last)
		}
		last = int(m.ID.Counter)
	}
}

// suiteReconnect: a peer that restarts, elsewhere, is found again.
func suiteReconnect(t *testing.T, f fabric) {
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", false, ha)
	f.start(t, "b", false, hb)
	a.Send(request("a", "b", 0))
	hb.waitCount(t, 1)
	for round := range 3 {
		f.stop(t, "b")
		hb := newRecorder()
		f.start(t, "b", false, hb)
		// What goes into the old connection is lost: repeat, as the rules do.
		eventually(t, fmt.Sprintf("a message to b, restarted %d times", round+1), func() bool {
			a.Send(request("a", "b", round))
			hb.mu.Lock()
			defer hb.mu.Unlock()
			return len(hb.messages) > 0
		})
	}
}

// suiteRefusedHint: a peer that is down is reported to who asks it, by name.
func suiteRefusedHint(t *testing.T, f fabric) {
	ha := newRecorder()
	a := f.start(t, "a", false, ha)
	f.start(t, "b", false, newRecorder())
	f.stop(t, "b") // its address is known, nobody is there
	a.Send(request("a", "b", 1))
	ha.wait(t, "a hint that b is down", func(r *recorder) bool { return r.refused["b"] > 0 })
	if len(ha.messages) != 0 || ha.refused["a"] != 0 {
		t.Errorf("got %d messages and hints %v, want hints about b only", len(ha.messages), ha.refused)
	}
}

// suiteClient: answers reach a node that listens on nothing.
func suiteClient(t *testing.T, f fabric) {
	hc, hm := newRecorder(), newRecorder()
	c := f.start(t, "client", true, hc)
	m := f.start(t, "m", false, hm)
	c.Send(request("client", "m", 1))
	hm.waitCount(t, 1)
	m.Send(grant("m", "client", 1))
	if got := hc.waitCount(t, 1)[0]; got != grant("m", "client", 1) {
		t.Errorf("the client got %+v", got)
	}
}

// suiteNoRoute: what nobody can get is dropped and counted.
func suiteNoRoute(t *testing.T, f fabric) {
	h := newRecorder()
	a := f.start(t, "a", false, h)
	f.start(t, "b", false, newRecorder())
	lost := []node.Message{
		request("a", "nobody", 1), // no address
		grant("a", "gone", 1),     // an answer to nobody
		request("a", "a", 1),      // oneself is not asked through the network
		request("x", "b", 1),      // not this node's to send
	}
	for _, m := range lost {
		a.Send(m)
	}
	if s := a.Stats(); s.DroppedNoRoute != uint64(len(lost)) || s.FramesOut != 0 {
		t.Errorf("counted %+v, want %d dropped and none sent", s, len(lost))
	}
}

// suiteInvalidMessage: a message that breaks the limits of the wire is dropped
// here; those after it still arrive.
func suiteInvalidMessage(t *testing.T, f fabric) {
	hb := newRecorder()
	a := f.start(t, "a", false, newRecorder())
	f.start(t, "b", false, hb)
	bad := request("a", "b", 1)
	bad.Lock = "two\nlines"
	a.Send(bad)
	a.Send(request("a", "b", 2))
	if got := hb.waitCount(t, 1); len(got) != 1 || got[0].ID.Counter != 2 {
		t.Errorf("got %+v, want the second message only", got)
	}
	if s := a.Stats(); s.EncodeErrors != 1 {
		t.Errorf("counted %d encode errors, want 1", s.EncodeErrors)
	}
}

// suiteStartAndClose: each is allowed once, Close twice; after it nothing moves.
func suiteStartAndClose(t *testing.T, f fabric) {
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", false, ha)
	b := f.start(t, "b", false, hb)
	if err := a.Start(ha); err == nil {
		t.Error("a second Start succeeded")
	}
	b.Send(request("b", "a", 1))
	ha.waitCount(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("Close: %v", err)
	}
	closeNow(t, a)
	if err := a.Start(ha); err == nil {
		t.Error("Start after Close succeeded")
	}
	before := len(ha.messages)
	a.Send(request("a", "b", 1))
	b.Send(request("b", "a", 2))
	b.Send(request("b", "a", 3))
	closeNow(t, b)
	if len(hb.messages) != 0 || len(ha.messages) != before {
		t.Errorf("after Close a got %d and b %d messages more", len(ha.messages)-before, len(hb.messages))
	}
}

// suiteConcurrentSends: many goroutines may send at once.
func suiteConcurrentSends(t *testing.T, f fabric) {
	const senders, each = 8, 50
	ha, hb := newRecorder(), newRecorder()
	a := f.start(t, "a", false, ha)
	f.start(t, "b", false, hb)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				a.Send(request("a", "b", s*each+i))
			}
		})
	}
	wg.Wait()
	seen := make(map[uint64]bool)
	for _, m := range hb.waitCount(t, senders*each) {
		seen[m.ID.Counter] = true
	}
	if len(seen) != senders*each {
		t.Errorf("%d different messages arrived, want %d", len(seen), senders*each)
	}
}
