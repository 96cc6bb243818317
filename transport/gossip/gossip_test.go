package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMembersFindOneAnother(t *testing.T) {
	for _, n := range []int{3, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			// Names of every allowed kind: memberlist reads a name in front of a slash.
			names := []string{"a", "b/with/slash", "127.0.0.1:7946", "ü", "e e", "join", "#0"}[:n]
			dir, nodes := newDirectory(), make(map[string]*member)
			for _, name := range names {
				nodes[name] = start(t, dir, config(name, dir, peersOf(names...)))
			}
			agree(t, 5*time.Second, nodes, names)
			for name, m := range nodes {
				for _, got := range m.g.Members() {
					want := Member{Name: got.Name, Addr: addrOf(got.Name), State: StateAlive}
					if got != want {
						t.Errorf("Members of %q: got %+v, want %+v", name, got, want)
					}
				}
				if got := len(m.g.Members()); got != n {
					t.Errorf("Members of %q: got %d, want %d", name, got, n)
				}
				if got := m.g.Refused(); got != 0 {
					t.Errorf("%q refused %d packets of its own cluster, want 0", name, got)
				}
			}
			for name, m := range nodes {
				if err := m.g.Close(t.Context()); err != nil {
					t.Errorf("close %q: %v", name, err)
				}
			}
			for _, m := range nodes {
				m.port.close()
			}
			goleak.VerifyNone(t, before)
		})
	}
}

func TestKilledMemberComesBackElsewhere(t *testing.T) {
	names := []string{"a", "b", "c"}
	dir, nodes := newDirectory(), make(map[string]*member)
	for _, name := range names {
		nodes[name] = start(t, dir, config(name, dir, peersOf(names...)))
	}
	agree(t, 5*time.Second, nodes, names)

	old := nodes["b"].port.addr
	nodes["b"].crash()
	for _, name := range []string{"a", "c"} {
		eventually(t, 5*time.Second, name+" is told that b is dead", func() bool {
			return !slices.Contains(nodes[name].up(), "b")
		})
	}

	nodes["b"] = start(t, dir, config("b", dir, peersOf(names...)))
	if nodes["b"].port.addr == old {
		t.Fatalf("the test wants another port than %v", old)
	}
	agree(t, 8*time.Second, nodes, names)
}

func TestFarewellIsHeardAtOnce(t *testing.T) {
	names := []string{"a", "b", "c"}
	dir, nodes := newDirectory(), make(map[string]*member)
	for _, name := range names {
		cfg := config(name, dir, peersOf(names...))
		cfg.tune = nil // a crash would take seconds to be noticed
		nodes[name] = start(t, dir, cfg)
	}
	agree(t, 5*time.Second, nodes, names)
	if err := nodes["b"].g.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	for _, name := range []string{"a", "c"} {
		eventually(t, time.Second, name+" is told that b left", func() bool {
			return !slices.Contains(nodes[name].up(), "b")
		})
	}
}

func TestStrangerIsRefused(t *testing.T) {
	dir := newDirectory()
	a := start(t, dir, config("a", dir, peersOf("a", "b")))
	b := start(t, dir, config("b", dir, peersOf("a", "b")))
	x := start(t, dir, config("x", dir, peersOf("a", "b", "x")))
	eventually(t, 5*time.Second, "the stranger has exchanged views with a and b", func() bool {
		return slices.Equal(x.up(), []string{"a", "b"})
	})
	eventually(t, 5*time.Second, "a and b see one another", func() bool {
		return slices.Equal(a.up(), []string{"b"}) && slices.Equal(b.up(), []string{"a"})
	})
	// The stranger told its own state in the exchange that showed it a and b.
	for name, m := range map[string]*member{"a": a, "b": b} {
		if got := m.g.list.NumMembers(); got != 2 {
			t.Errorf("%s counts %d members, want 2", name, got)
		}
		if got := m.heard(); slices.Contains(got, "x:true") {
			t.Errorf("%s was told of a stranger: %v", name, got)
		}
	}
}

func TestOtherLabelIsIgnored(t *testing.T) {
	dir := newDirectory()
	other := config("b", dir, peersOf("a", "b"))
	other.Cluster = "tesu" // as long as the right one
	a := start(t, dir, config("a", dir, peersOf("a", "b")))
	b := start(t, dir, other)
	eventually(t, 5*time.Second, "both were asked to join three times", func() bool {
		return a.port.connections() >= 3 && b.port.connections() >= 3
	})

	conn, err := net.Dial("udp", a.port.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(ackPacket("tesu", 1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "a packet with another label is counted", func() bool { return a.g.Refused() == 1 })
	for name, m := range map[string]*member{"a": a, "b": b} {
		if got := m.heard(); len(got) != 0 {
			t.Errorf("%s was told %v by another cluster, want nothing", name, got)
		}
	}
}

func TestAloneAndUnresolved(t *testing.T) {
	const other = "b/with/slash"
	dir := newDirectory()
	began := time.Now()
	a := start(t, dir, config("a", dir, peersOf("a", other)))
	if took := time.Since(began); took > time.Second {
		t.Errorf("Start took %v with no peer there, want no wait", took)
	}
	want := []Member{{"a", addrOf("a"), StateAlive}, {other, addrOf(other), StateDead}}
	if got := a.g.Members(); !slices.Equal(got, want) {
		t.Errorf("Members: got %v, want %v", got, want)
	}
	// b's list never leads to a, so only a can join, once b's name resolves.
	lost := newDirectory()
	m := start(t, lost, config(other, lost, peersOf("a", other)))
	lost.set(addrOf("a"), netip.MustParseAddrPort("127.0.0.1:1"))
	dir.set(addrOf(other), m.port.addr)
	eventually(t, 5*time.Second, "a finds b", func() bool { return slices.Equal(a.up(), []string{other}) })
}

func TestCloseLeavesTheSocketToItsOwner(t *testing.T) {
	dir := newDirectory()
	a := start(t, dir, config("a", dir, peersOf("a")))
	for range 2 { // the second call is answered alike
		if err := a.g.Close(t.Context()); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	if _, err := a.port.udp.WriteToUDPAddrPort([]byte("x"), a.port.addr); err != nil {
		t.Fatalf("write after Close: %v, want the socket to be open", err)
	}
	if n, _, err := a.port.udp.ReadFromUDPAddrPort(make([]byte, 8)); err != nil || n != 1 {
		t.Fatalf("read after Close: %d bytes, %v; want the owner to be able to read", n, err)
	}
}

// stuck blocks in its first event.
type stuck struct {
	entered, leave chan struct{}
}

func (s stuck) PeerAlive(string) { close(s.entered); <-s.leave }
func (s stuck) PeerDead(string)  {}

func TestCloseDoesNotOutwaitItsContext(t *testing.T) {
	dir := newDirectory()
	ev := stuck{make(chan struct{}), make(chan struct{})}
	p := listen(t)
	cfg := config("a", dir, peersOf("a", "b"))
	cfg.Conns, cfg.Packets = p.conns, p.udp
	g, err := Start(cfg, ev)
	if err != nil {
		t.Fatal(err)
	}
	dir.set(addrOf("a"), p.addr)
	start(t, dir, config("b", dir, peersOf("a", "b")))
	<-ev.entered
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close with a stuck event: %v, want the context's error", err)
	}
	close(ev.leave)
	if err := g.Close(t.Context()); err != nil {
		t.Errorf("close after the event came back: %v", err)
	}
}
