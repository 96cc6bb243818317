package explore

import (
	"fmt"
	"slices"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

const (
	maxNodes = 4
	lockName = "L"

	// ttl is T; all fractions of it that the core uses are whole.
	ttl   = 2400 * node.Millisecond
	drift = 100_000 // d in parts per million

	startOfTime = node.Instant(1000 * node.Second)
	wallStart   = int64(1_700_000_000) * int64(node.Second)
	day         = 24 * 3600 * int64(node.Second)
)

// want is what the caller of a node does.
type want uint8

const (
	idle want = iota
	waiting
	holding
)

// place is a node and its caller.
type place struct {
	core *node.Node // shared with other worlds unless own
	own  bool
	life int64 // counts the starts

	want     want
	left     int // how often it will ask
	call     node.CallID
	deadline node.Instant // of its lease, as far as it knew when it last ran

	sum     uint64 // hash of core
	sumAt   node.Instant
	sumLive bool
}

// world is a state: the cores, what is under way, and which faults may still come. Worlds
// share what they have not changed.
type world struct {
	sc     *Scenario
	now    node.Instant
	nodes  int // members and clients
	names  [maxNodes]string
	places [maxNodes]place
	flight []*node.Message // never changed once sent
	left   Scenario        // the faults that may still come
	cut    int             // the node that is cut off, -1: none
	asleep int             // the node that sleeps now, -1: none; only within time
	calls  node.CallID
	times  []node.Timestamp // of all requests, sorted
	token  uint64           // highest fixed

	over      bool // there are no more faults
	rush      bool // all that is sent arrives at once
	prompt    []*node.Message
	violation *Violation
	log       func(format string, args ...any)
}

// begin returns a cluster that has run for long enough: nobody is quarantined, and all
// know each other's votes and floors.
func begin(sc Scenario) *world {
	w := &world{sc: &sc, nodes: sc.Members + sc.Clients, now: startOfTime, left: sc, cut: -1, asleep: -1}
	for i := range w.nodes {
		w.names[i] = string(rune('a' + i))
	}
	w.rush = true
	for i := range w.nodes {
		w.start(i)
	}
	w.settle()
	w.runUntil(w.now.Add(3 * ttl))
	w.rush = false
	for _, i := range sc.Requesters {
		w.places[i].left = sc.Locks
	}
	return w
}

func (w *world) start(i int) {
	p := &w.places[i]
	p.life++
	wall := wallStart + int64(w.now)
	if p.life > 1 && w.sc.WallBack {
		wall -= day
	}
	core, err := node.New(node.Config{
		Name: w.names[i], Members: w.names[:w.sc.Members], Cluster: "explore", LeaseTTL: ttl, Drift: drift,
		NoRotation: true, TreeOnly: w.sc.TreeOnly, Incarnation: node.Incarnation{Start: p.life, Random: uint64(i + 1)}, Seed: 1, Breakage: w.sc.Fault,
	}, w.now, wall)
	if err != nil {
		w.fail(Panic, "%s does not start: %v", w.names[i], err)
		return
	}
	p.core, p.own, p.sumAt = core, true, 0
	p.want, p.deadline = idle, 0
	w.collect(i)
}

// fork returns a copy that shares the cores until they are called.
func (w *world) fork() *world {
	v := new(world)
	*v = *w
	v.flight, v.times = slices.Clone(w.flight), slices.Clone(w.times)
	for i := range v.places {
		w.places[i].own, v.places[i].own = false, false
	}
	return v
}

// call calls a core and takes what it leaves.
func (w *world) call(i int, f func(c *node.Node)) {
	if w.violation != nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			w.fail(Panic, "%s: %v", w.names[i], r)
		}
	}()
	p := &w.places[i]
	if !p.own {
		p.core, p.own = p.core.Twin(breakage.Key{}), true
	}
	p.sumAt = 0
	f(p.core)
	w.collect(i)
	w.judge()
}

func (w *world) collect(i int) {
	p := &w.places[i]
	for again := true; again; {
		again = false
		if p.want == holding {
			w.renew(p, w.names[i])
		}
		out := p.core.Take()
		for j := range out.Messages {
			m := out.Messages[j]
			w.post(&m)
		}
		for _, e := range slices.Clone(out.Events) {
			again = w.happened(p, w.names[i], &e) || again
		}
	}
}

// renew asks a core until when it holds. A lease whose deadline has passed, though its
// owner slept, is over for good.
func (w *world) renew(p *place, name string) {
	until, _ := p.core.Deadline(w.now, p.call)
	if p.deadline <= w.now && until > w.now {
		w.fail(Revived, "the deadline of %s, %v, had passed at %v, and is now %v",
			name, moment(p.deadline), moment(w.now), moment(until))
	}
	p.deadline = until
}

// happened takes an event. It reports whether the core was called.
func (w *world) happened(p *place, name string, e *node.Event) bool {
	switch e.Type {
	case node.EventAcquired:
		w.tell("    %s HOLDS until %v", name, moment(e.Deadline))
		p.want, p.deadline = holding, e.Deadline
		if w.sc.Tokens {
			p.core.WantToken(w.now, p.call)
		}
		return true // the deadline may have moved since
	case node.EventLost, node.EventFailed:
		w.tell("    %s has LOST the lock, or failed", name)
		p.want = idle
	case node.EventToken:
		w.tell("    %s has token %d", name, e.Token)
		if e.Token <= w.token {
			w.fail(Tokens, "%s has token %d, and %d was had before", name, e.Token, w.token)
		}
		w.token = e.Token
	default:
	}
	return false
}

// post puts a message under way, or onto the list of those that arrive at once.
func (w *world) post(m *node.Message) {
	keeps := m.Type == node.MsgKeepAlive || m.Type == node.MsgKeepAliveAck
	from, to := w.index(m.From), w.index(m.To)
	if w.cut >= 0 && (w.cut == to || w.cut == from) || keeps && to == w.asleep ||
		!w.over && slices.Contains(w.sc.Always, m.Type) {
		w.tellMessage("    lost: ", m)
		return
	}
	if w.rush && to != w.asleep || keeps && !w.sc.KeepAlives {
		w.prompt = append(w.prompt, m)
		return
	}
	w.tellMessage("    sent: ", m)
	w.flight = append(w.flight, m)
}

func (w *world) index(name string) int { return int(name[0] - 'a') }

// settle delivers what arrives at once.
func (w *world) settle() {
	for len(w.prompt) > 0 && w.violation == nil {
		m := w.prompt[0]
		w.prompt = w.prompt[1:]
		w.deliver(m)
	}
	w.prompt = nil
}

func (w *world) deliver(m *node.Message) {
	w.tellMessage("  ", m)
	w.call(w.index(m.To), func(c *node.Node) { c.Step(w.now, *m) })
}

func (w *world) fail(kind Kind, format string, args ...any) {
	if w.violation == nil && kind != w.sc.Skip {
		w.violation = &Violation{kind, fmt.Sprintf(format, args...)}
	}
}

func (w *world) tell(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// tellMessage leaves out KeepAlives that arrive at once: they are most of all.
func (w *world) tellMessage(what string, m *node.Message) {
	if w.log != nil && (w.sc.KeepAlives || m.Type != node.MsgKeepAlive && m.Type != node.MsgKeepAliveAck) {
		w.log("%s%s", what, describe(m))
	}
}

// judge checks what must be true at every instant. A node that sleeps holds, and counts
// grants, until its own clock says that they are over.
func (w *world) judge() {
	for i := range w.nodes {
		for j := range i {
			w.judgePair(&w.places[j], &w.places[i], w.names[j], w.names[i])
		}
	}
}

func (w *world) judgePair(p, q *place, first, second string) {
	if p.core == nil || q.core == nil {
		return // the cluster is just being started
	}
	if p.want == holding && q.want == holding && p.deadline > w.now && q.deadline > w.now {
		w.fail(TwoHolders, "%s holds until %v and %s until %v", first, moment(p.deadline), second, moment(q.deadline))
	}
	if p.want == idle || q.want == idle {
		return
	}
	a, _ := p.core.Counted(breakage.Key{}, w.now, lockName)
	b, _ := q.core.Counted(breakage.Key{}, w.now, lockName)
	if both := a.Minus(a.Minus(b)); !both.Empty() {
		w.fail(TwoGrants, "%s counts grants of the members %v, and so does %s, of %v", first, a, second, b)
	}
}

// moment is an instant that is shown as what has passed since the start.
type moment node.Instant

func (m moment) String() string {
	return fmt.Sprintf("%.4fT", float64(node.Instant(m)-startOfTime)/float64(ttl))
}
