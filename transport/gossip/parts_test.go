package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/sirupsen/logrus"

	"github.com/treequorum/dmutex/transport"
)

func TestOverTheMemberPort(t *testing.T) {
	dir := newDirectory()
	nodes := make(map[string]*recorder)
	for _, name := range []string{"a", "b"} {
		p, err := transport.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(name, dir, peersOf("a", "b"))
		cfg.Conns, cfg.Packets = p.GossipConns(), p.PacketConn()
		dir.set(addrOf(name), p.Addr().(*net.TCPAddr).AddrPort())
		nodes[name] = &recorder{}
		g, err := Start(cfg, nodes[name])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(context.Background()); err != nil {
				t.Errorf("close %s: %v", name, err)
			}
			if err := p.Close(); err != nil {
				t.Errorf("close the port of %s: %v", name, err)
			}
		})
	}
	eventually(t, 5*time.Second, "a and b see one another", func() bool {
		return slices.Equal(nodes["a"].up(), []string{"b"}) && slices.Equal(nodes["b"].up(), []string{"a"})
	})
}

func TestConfigFaults(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	good := func() Config {
		return Config{Name: "a", Cluster: "c", Peers: peersOf("a", "b"), Packets: udp, Conns: make(chan net.Conn)}
	}
	many := make([]string, maxPeers+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, c := range map[string]struct {
		spoil func(*Config)
		says  string
	}{
		"label":       {func(c *Config) { c.Cluster = strings.Repeat("x", 256) }, "cluster name"},
		"packets":     {func(c *Config) { c.Packets = nil }, "Packets"},
		"conns":       {func(c *Config) { c.Conns = nil }, "Conns"},
		"timing":      {func(c *Config) { c.Timing = 3 }, "Timing(3)"},
		"interval":    {func(c *Config) { c.JoinInterval = -1 }, "JoinInterval"},
		"self":        {func(c *Config) { c.Name = "z" }, "not on the list"},
		"twice":       {func(c *Config) { c.Peers = peersOf("a", "a") }, "twice"},
		"empty name":  {func(c *Config) { c.Peers = peersOf("a", "") }, "1 to 255 bytes"},
		"long name":   {func(c *Config) { c.Peers = peersOf("a", strings.Repeat("x", 256)) }, "1 to 255 bytes"},
		"control":     {func(c *Config) { c.Peers = peersOf("a", joinAlias(1)) }, "control characters"},
		"not UTF-8":   {func(c *Config) { c.Peers = peersOf("a", "\xff") }, "UTF-8"},
		"no port":     {func(c *Config) { c.Peers[1].Addr = "host" }, "host:port"},
		"many":        {func(c *Config) { c.Peers = peersOf(many...) }, "128 peers"},
		"two at once": {func(c *Config) { c.Name, c.Conns = "z", nil }, "not on the list"},
	} {
		cfg := good()
		c.spoil(&cfg)
		g, err := Start(cfg, nil)
		if err == nil {
			crash(g)
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want ErrConfig that says %q", name, err, c.says)
		}
	}
	g, err := Start(good(), nil)
	if err != nil {
		t.Fatalf("a good configuration, no events: %v", err)
	}
	crash(g)
}

func TestPresets(t *testing.T) {
	for timing, want := range map[Timing]time.Duration{TimingLocal: time.Second, TimingLAN: 3 * time.Second, TimingWAN: 10 * time.Second} {
		cfg := Config{Name: "a", Timing: timing}
		if got := cfg.joinInterval(); got != want {
			t.Errorf("%v: JoinInterval is %v by default, want %v", timing, got, want)
		}
		m := cfg.memberlistConfig(nil, nil, newLogWriter(nil))
		if m.EnableCompression || !m.RequireNodeNames || m.DeadNodeReclaimTime <= 0 || m.TCPTimeout > streamTimeout {
			t.Errorf("%v: got compression %v, names required %v, reclaim %v, stream time-out %v", timing,
				m.EnableCompression, m.RequireNodeNames, m.DeadNodeReclaimTime, m.TCPTimeout)
		}
	}
}

func TestLogIsBoundedAndClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&out)
		logger.SetLevel(logrus.DebugLevel)
		logger.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
		w := newLogWriter(logger)
		for _, c := range []struct{ in, want string }{
			{"[DEBUG] memberlist: one\n", "level=debug msg=\"memberlist: one\"\n"},
			{"[INFO] two\n", "level=debug msg=two\n"},
			{"[WARN] three\n", "level=warning msg=three\n"},
			{"[ERR] four\n", "level=warning msg=four\n"},
			{"plain\n", "level=debug msg=plain\n"},
			{"[ERR] a\x1b[31m\nb\x00\xff\n", "level=warning msg=\"a?[31m?b??\"\n"},
			{"[ERR] " + strings.Repeat("x", 1<<20), "level=warning msg=" + strings.Repeat("x", maxLogLine) + "\n"},
		} {
			out.Reset()
			if n, err := w.Write([]byte(c.in)); n != len(c.in) || err != nil {
				t.Errorf("Write of %d bytes: got %d, %v", len(c.in), n, err)
			}
			if out.String() != c.want {
				t.Errorf("%.40q: got %.200q, want %.200q", c.in, out.String(), c.want)
			}
		}
		time.Sleep(logPeriod) // virtual
		out.Reset()
		for range 1000 {
			w.warnf("again")
		}
		if got := strings.Count(out.String(), "\n"); got != linesPeriod {
			t.Errorf("1000 warnings at once: %d lines, want %d", got, linesPeriod)
		}
		time.Sleep(logPeriod) // virtual
		w.debugf("later")
		if want := fmt.Sprintf("%d log lines left out", 1000-linesPeriod); !strings.Contains(out.String(), want) {
			t.Errorf("the lines left out are not counted: want %q", want)
		}
		w.stop()
		out.Reset()
		w.warnf("after the end")
		if out.Len() != 0 {
			t.Errorf("a stopped writer wrote %q", out.String())
		}
	})
}

func TestConflictIsLogged(t *testing.T) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	v := newView("a", newTable(peersOf("a", "b"), nil), newLogWriter(logger))
	v.NotifyConflict(&memberlist.Node{Name: "b", Addr: net.IPv4(1, 2, 3, 4)}, &memberlist.Node{Name: "b", Addr: net.IPv4(5, 6, 7, 8)})
	if got := out.String(); !strings.Contains(got, "level=warning") || !strings.Contains(got, "5.6.7.8") {
		t.Errorf("got %q, want a warning that shows both addresses", got)
	}
}

func TestChangesThatUndoEachOtherAreLeftOut(t *testing.T) {
	v := newView("a", newTable(peersOf("a", "b", "c"), nil), newLogWriter(nil))
	for range 10000 { // flapping must not pile up
		v.set("b", true)
		v.set("b", false)
	}
	v.set("a", true) // oneself is not told
	v.set("c", true)
	v.set("stranger", true)
	v.set("b", true)
	if len(v.changed) != 2 {
		t.Errorf("%d changes are queued, want 2", len(v.changed))
	}
	var got []string
	for name, alive, ok := v.next(); ok; name, alive, ok = v.next() {
		got = append(got, fmt.Sprint(name, alive))
	}
	if want := []string{"btrue", "ctrue"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	v.set("b", false)
	v.set("b", true)
	if name, alive, ok := v.next(); ok {
		t.Errorf("told %q %v, want nothing: it was told before", name, alive)
	}
	v.set("b", false)
	v.close()
	if name, alive, ok := v.next(); ok {
		t.Errorf("told %q %v after the end", name, alive)
	}
}

func TestSuspicionEndsWithWhatItWasAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newView("a", newTable(peersOf("a", "b"), nil), newLogWriter(nil))
		v.patience = time.Second
		want := func(step string, wanted State) {
			t.Helper()
			time.Sleep(time.Minute) // virtual
			if got := v.members()[1].State; got != wanted {
				t.Errorf("%s: got %v, want %v", step, got, wanted)
			}
		}
		v.set("b", true)
		want("joined", StateAlive)
		v.pinged("b")
		want("no answer", StateSuspect)
		v.pinged("b")
		v.answered("b")
		want("an answer", StateAlive)
		v.pinged("b")
		v.set("b", false)
		want("given up", StateDead)
		v.set("b", true)
		want("back", StateAlive)
	})
}

func TestAddressesOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := memAddr(1), memAddr(2)
		answer := []netip.AddrPort{first, second}
		lookups := 0
		table := newTable(peersOf("b"), func(context.Context, string) ([]netip.AddrPort, error) {
			lookups++
			if answer == nil {
				return nil, errors.New("no such host")
			}
			return answer, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		want := func(step string, wanted netip.AddrPort) {
			t.Helper()
			got, err := table.packetAddr("b")
			if err != nil || got != wanted {
				t.Errorf("%s: got %v, %v; want %v", step, got, err, wanted)
			}
			synctest.Wait()
		}
		if _, err := table.packetAddr("b"); !errors.Is(err, errUnresolved) {
			t.Errorf("before the first look-up: got %v, want errUnresolved", err)
		}
		go table.run(ctx)
		synctest.Wait()
		want("found", first)
		for range 100 {
			want("within the time to live", first)
		}
		if lookups != 1 {
			t.Errorf("%d look-ups, want 1", lookups)
		}
		p, _, err := table.streamAddrs(ctx, joinAlias(0))
		if err != nil {
			t.Fatal(err)
		}
		table.prefer(p, second)
		want("the one that answered a dial", second)
		time.Sleep(2 * addressTTL) // virtual
		want("asks for another look-up", second)
		want("still among those found", second)

		answer = nil
		time.Sleep(2 * addressTTL) // virtual
		want("the name server is away", second)
		if _, addrs, err := table.streamAddrs(ctx, "b"); err != nil || addrs[0] != second {
			t.Errorf("dial without name server: got %v, %v; want the address of before", addrs, err)
		}
		moved := memAddr(3)
		answer = []netip.AddrPort{moved}
		time.Sleep(2 * addressTTL) // virtual
		want("moved, not noticed yet", second)
		want("moved", moved)
		answer = []netip.AddrPort{first}
		newView("a", table, newLogWriter(nil)).NotifyJoin(&memberlist.Node{Name: "b"})
		synctest.Wait()
		want("came up elsewhere a moment ago", first)
		if _, err := table.packetAddr("stranger"); !errors.Is(err, errNotListed) {
			t.Errorf("a name not on the list: got %v, want errNotListed", err)
		}
		if table.listed(joinAlias(0)) {
			t.Error("a join alias counts as a member's name")
		}
	})
}

func TestSystemResolver(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1:7946": "127.0.0.1:7946", "[::1]:1": "[::1]:1", "localhost:7946": "127.0.0.1:7946"} {
		got, err := resolveSystem(t.Context(), addr)
		if err != nil || got[0].String() != want {
			t.Errorf("%s: got %v, %v; want %s first", addr, got, err, want)
		}
	}
	if got, err := resolveSystem(t.Context(), "127.0.0.1"); err == nil {
		t.Errorf("an address without a port: got %v, want an error", got)
	}
	literal := newTable([]Peer{{"a", "127.0.0.1:1"}}, nil)
	if got, err := literal.packetAddr("a"); err != nil || got.String() != "127.0.0.1:1" {
		t.Errorf("a literal address at once: got %v, %v", got, err)
	}
}

func TestTransportGoesByNameOnly(t *testing.T) {
	dir := newDirectory()
	a := start(t, dir, config("a", dir, peersOf("a", "b")))
	tr := a.g.transport
	victim := listen(t) // where a stranger's gossip would like us to send
	for name, err := range map[string]error{
		"packet without name": second(tr.WriteTo([]byte{0}, victim.addr.String())),
		"packet to stranger":  second(tr.WriteToAddress([]byte{0}, memberlist.Address{Name: "x", Addr: victim.addr.String()})),
		"dial without name":   second(tr.DialTimeout(victim.addr.String(), time.Second)),
		"dial to stranger":    second(tr.DialAddressTimeout(memberlist.Address{Name: "x", Addr: victim.addr.String()}, time.Second)),
	} {
		if !errors.Is(err, errNotListed) {
			t.Errorf("%s: got %v, want errNotListed", name, err)
		}
	}
	if got := victim.connections(); got != 0 {
		t.Errorf("%d connections to an address that only gossip named, want 0", got)
	}
}

func second[T any](_ T, err error) error { return err }
