package node

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// Times of most tests: T = 1 s and d = 10 %.
const (
	testTTL   = Second
	testDrift = 100_000
	oneT      = testTTL
)

// verdict is what the network of a test does with a message.
type verdict uint8

const (
	pass verdict = iota
	drop
	hold // kept until freed
)

// flying is a message on its way.
type flying struct {
	at Instant
	m  Message
}

// cluster is a number of nodes with virtual time and a network in memory. It has
// no goroutine: run moves the time, and everything happens within.
type cluster struct {
	tb      testing.TB
	now     Instant // real time; each node's clock differs by an offset and a rate
	members []string
	nodes   map[string]*Node
	names   []string // of nodes, sorted
	offset  map[string]Duration
	rate    map[string]int64 // of the clock, parts per million off; set before the first run
	change  func(*Config)
	delay   Duration
	filter  func(m *Message) verdict
	flight  []flying // by time, then in the order of sending
	held    []Message
	sent    []Message // all since the last reset, in order
	events  map[string][]Event
	calls   CallID
	starts  int
}

// letters names n members a, b, c and so on.
func letters(n int) []string {
	var names []string
	for i := range n {
		names = append(names, string(rune('a'+i)))
	}
	return names
}

// newCluster starts n members at a time. change may alter their configuration.
func newCluster(tb testing.TB, n int, change func(*Config)) *cluster {
	tb.Helper()
	c := &cluster{
		tb: tb, now: 1_000_000, members: letters(n), nodes: map[string]*Node{}, offset: map[string]Duration{},
		rate: map[string]int64{}, change: change, delay: Millisecond, events: map[string][]Event{},
	}
	for _, name := range c.members {
		c.start(name)
	}
	return c
}

// readyCluster is newCluster, past the quarantine, with all votes and floors known.
func readyCluster(tb testing.TB, n int, change func(*Config)) *cluster {
	tb.Helper()
	c := newCluster(tb, n, change)
	c.run(3 * oneT)
	c.reset()
	return c
}

// testConfig is the configuration of a node in a test: every lock has the same root.
func testConfig(name string, members []string) Config {
	return Config{
		Name: name, Members: members, Cluster: "test", LeaseTTL: testTTL, Drift: testDrift, NoRotation: true,
		Incarnation: Incarnation{Start: 1, Random: 7}, Seed: 42,
	}
}

// start starts the node of that name, or starts it again with nothing in memory.
func (c *cluster) start(name string) *Node {
	c.tb.Helper()
	c.starts++
	cfg := testConfig(name, c.members)
	cfg.Incarnation.Start = int64(c.now) + int64(c.starts)
	if c.change != nil {
		c.change(&cfg)
	}
	if _, again := c.offset[name]; !again {
		// Clocks of different machines have nothing in common but their rate.
		c.offset[name] = Duration(len(c.offset)+1) * 1000 * Second
		c.names = append(c.names, name)
		slices.Sort(c.names)
	}
	n, err := New(cfg, c.clock(name), int64(c.now))
	if err != nil {
		c.tb.Fatal(err)
	}
	c.nodes[name] = n
	c.collect(name)
	return n
}

func (c *cluster) crash(name string) { delete(c.nodes, name) }

// clock returns the reading of a node's clock now.
func (c *cluster) clock(name string) Instant { return c.reading(name, c.now) }

func (c *cluster) reading(name string, at Instant) Instant {
	return at.Add(c.offset[name] + Duration(int64(at)*c.rate[name]/million))
}

// when returns the first moment at which a node's clock shows the reading.
func (c *cluster) when(name string, reading Instant) Instant {
	since := int64(reading.Add(-c.offset[name]))
	at := Instant(since - since*c.rate[name]/(million+c.rate[name]) - 2)
	for c.reading(name, at) < reading {
		at++
	}
	return at
}

// reset forgets what was sent so far.
func (c *cluster) reset() { c.sent = nil }

// collect takes what a node left, and checks the invariants.
func (c *cluster) collect(name string) {
	c.tb.Helper()
	n := c.nodes[name]
	out := n.Take()
	c.events[name] = append(c.events[name], slices.Clone(out.Events)...)
	for i := range out.Messages {
		c.post(out.Messages[i])
	}
	if err := checkInvariants(n); err != nil {
		c.tb.Fatalf("at %d, node %s: %v", c.now, name, err)
	}
	c.checkHolders()
}

func (c *cluster) post(m Message) {
	c.sent = append(c.sent, m)
	verdict := pass
	if c.filter != nil {
		verdict = c.filter(&m)
	}
	switch verdict {
	case pass:
		c.fly(m)
	case hold:
		c.held = append(c.held, m)
	case drop:
	}
}

func (c *cluster) fly(m Message) {
	c.flight = append(c.flight, flying{c.now.Add(c.delay), m})
	slices.SortStableFunc(c.flight, func(a, b flying) int { return cmp.Compare(a.at, b.at) })
}

// free lets the messages go that were held back and that which picks, the last
// first: reordered.
func (c *cluster) free(which func(*Message) bool) {
	var left []Message
	for i := len(c.held) - 1; i >= 0; i-- {
		if which(&c.held[i]) {
			c.fly(c.held[i])
		} else {
			left = append(left, c.held[i])
		}
	}
	slices.Reverse(left)
	c.held = left
}

// run lets d pass.
func (c *cluster) run(d Duration) {
	c.tb.Helper()
	for end := c.now.Add(d); ; {
		at, name := c.next()
		if at > end {
			c.now = end
			return
		}
		c.now = max(c.now, at)
		if name == "" {
			m := c.flight[0].m
			c.flight = slices.Delete(c.flight, 0, 1)
			if n := c.nodes[m.To]; n != nil {
				n.Step(c.clock(m.To), m)
				c.collect(m.To)
			}
			continue
		}
		c.nodes[name].Tick(c.clock(name))
		c.collect(name)
	}
}

// next returns when something happens, and to which node; no name: a message.
func (c *cluster) next() (at Instant, name string) {
	at = Instant(1 << 62)
	if len(c.flight) > 0 {
		at = c.flight[0].at
	}
	for _, other := range c.names {
		if n := c.nodes[other]; n != nil {
			if wake := c.when(other, n.Wake()); wake < at {
				at, name = wake, other
			}
		}
	}
	return at, name
}

func (c *cluster) lock(name, lock string) CallID {
	c.tb.Helper()
	return c.lockWith(name, lock, CallOptions{})
}

func (c *cluster) lockWith(name, lock string, opt CallOptions) CallID {
	c.tb.Helper()
	c.calls++
	c.nodes[name].Lock(c.clock(name), c.calls, lock, opt)
	c.collect(name)
	return c.calls
}

func (c *cluster) unlock(name string, call CallID) bool {
	c.tb.Helper()
	ok := c.nodes[name].Unlock(c.clock(name), call)
	c.collect(name)
	return ok
}

// token asks for the fencing token of a lease, waits up to d, and returns it.
func (c *cluster) token(name string, call CallID, d Duration) uint64 {
	c.tb.Helper()
	c.nodes[name].WantToken(c.clock(name), call)
	c.collect(name)
	c.run(d)
	e := c.event(name, EventToken, call)
	if e == nil {
		return 0
	}
	return e.Token
}

// event returns the latest event of that type for a call, or nil.
func (c *cluster) event(name string, which EventType, call CallID) *Event {
	return findEvent(c.events[name], which, call)
}

func findEvent(events []Event, which EventType, call CallID) *Event {
	for i := len(events) - 1; i >= 0; i-- {
		if e := &events[i]; e.Type == which && e.Call == call {
			return e
		}
	}
	return nil
}

func (c *cluster) mustAcquire(name string, call CallID) {
	c.tb.Helper()
	if c.event(name, EventAcquired, call) == nil {
		c.tb.Fatalf("node %s has not got the lock of call %d; its events: %+v", name, call, c.events[name])
	}
}

// count counts the messages that were sent since the last reset, KeepAlives and
// their answers left out.
func (c *cluster) count() (total int, byType map[MessageType]int) {
	byType = map[MessageType]int{}
	for i := range c.sent {
		if t := c.sent[i].Type; t != MsgKeepAlive && t != MsgKeepAliveAck {
			total++
			byType[t]++
		}
	}
	return total, byType
}

// checkHolders checks I1 at this instant.
func (c *cluster) checkHolders() {
	c.tb.Helper()
	holders := map[string]string{}
	for _, name := range c.names {
		n := c.nodes[name]
		if n == nil {
			continue
		}
		for lock := range n.locals {
			if !holds(n, lock, c.clock(name)) {
				continue
			}
			if other := holders[lock]; other != "" {
				c.tb.Fatalf("I1: at %d lock %q is held by %s and by %s", c.now, lock, other, name)
			}
			holders[lock] = name
		}
	}
}

// holds reports whether the node holds the lock at that reading of its clock.
func holds(n *Node, lock string, now Instant) bool {
	l := n.locals[lock]
	if l == nil || l.lease == nil || l.req == nil {
		return false
	}
	saved := n.now
	n.now = max(now, saved)
	until := n.deadline(l.req).until()
	n.now = saved
	return until > now
}

// show prints a message for a failure.
func show(m *Message) string {
	return fmt.Sprintf("%v %s->%s %q id %d number %d", m.Type, m.From, m.To, m.Lock, m.ID.Counter, m.Number)
}
