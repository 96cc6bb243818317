package nodetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/quorum"
)

// sim is one run.
type sim struct {
	opt     Options
	rand    *rand.Rand
	now     moment
	events  events
	net     *network
	procs   []*process
	byName  map[string]*process
	members []string

	lastCall node.CallID
	calls    map[node.CallID]*call // that wait or hold

	healed    bool
	half      bool // something is still cut off or down
	finished  bool
	healedAt  moment
	violation *Violation
	exclusion exclusion
	tokens    *tokens
	served    served

	stats     Stats
	hash      uint64
	tracing   bool
	keepLines int
	lines     []string
}

// bounds of the second phase, in T: how long anybody may wait once the faults are
// over (with clocks that run at 1-d), and how long grants of the dead may last.
const (
	servedWithin = 9
	settleTime   = 3
)

// Run runs a cluster as the options say, until its first violation or its end.
// With lines above 0 it keeps so many of the last lines of its trace.
func Run(o Options, lines int) *Result {
	s := newSim(o, lines)
	s.run()
	for _, p := range s.procs {
		s.countRules(p)
	}
	s.stats.Virtual = node.Duration(s.now)
	s.stats.TokensExcused = s.tokens.excused
	s.stats.LongestWait = s.served.longest
	r := &Result{Options: o, Violation: s.violation, Stats: s.stats, Digest: s.hash, Trace: s.lines}
	if len(r.Trace) > lines {
		r.Trace = r.Trace[len(r.Trace)-lines:]
	}
	return r
}

// servedBound is how long the last one may wait after the faults: for the faults to
// wear off, and in a row of all callers for each before it to be told of the lock, to
// fix a token and to give the lock back.
func servedBound(o Options) node.Duration {
	callers := node.Duration((o.Members + o.Clients) * o.Calls.Slots)
	return servedWithin*o.TTL + callers*4*(o.Net.Delay+o.Net.Jitter)
}

func newSim(o Options, lines int) *sim {
	nodes := o.Members + o.Clients
	s := &sim{
		opt: o, rand: rand.New(rand.NewPCG(o.Seed, 2)), net: newNetwork(o.Net, nodes),
		byName: make(map[string]*process), calls: make(map[node.CallID]*call),
		exclusion: exclusion{claims: make(map[string][]*claim), grace: o.TTL/16 + 2*o.Faults.Lazy},
		tokens:    newTokens(o.Members, o.Faults.Walls),
		served:    served{waiting: make(map[node.CallID]*call), bound: servedBound(o), ttl: o.TTL, since: never},
		tracing:   lines > 0, keepLines: lines, hash: 14695981039346656037,
	}
	for i := range nodes {
		name := fmt.Sprintf("m%02d", i)
		if i >= o.Members {
			name = fmt.Sprintf("client%d", i-o.Members)
		} else {
			s.members = append(s.members, name)
		}
		p := &process{sim: s, index: i, name: name}
		p.clock = clock{local: node.Instant(1 + upTo(s.rand, 1_000_000*node.Second)), ppm: s.rate()}
		if o.Faults.Walls {
			p.wallOff = s.wallOffset()
		}
		s.procs = append(s.procs, p)
		s.byName[name] = p
	}
	return s
}

// after has f called in d.
func (s *sim) after(d node.Duration, f func()) {
	s.events.put(event{at: s.now.add(d), kind: eventDo, do: f})
}

func (s *sim) run() {
	for _, p := range s.procs {
		s.after(upTo(s.rand, s.opt.TTL/2), func() { s.start(p) })
	}
	s.nextFault()
	s.after(s.opt.Faulty, s.heal)
	for s.violation == nil && !s.finished {
		e, ok := s.events.take()
		if !ok {
			return
		}
		s.now = e.at
		s.stats.Events++
		p := s.procs[e.who]
		switch e.kind {
		case eventDo:
			e.do()
		case eventDeliver:
			s.deliver(p, e.arg)
		case eventWake:
			s.wake(p, &e)
		}
	}
}

// heal ends all faults: what is down starts, what is paused goes on, and each
// caller makes one more call.
func (s *sim) heal() {
	s.trace("ALL FAULTS END")
	s.healed, s.healedAt, s.served.since = true, s.now, s.now
	s.net.calm()
	s.healHalf()
	for _, p := range s.procs {
		d := upTo(s.rand, s.opt.TTL/8)
		if p.core == nil {
			s.after(d, func() { s.start(p) })
			continue
		}
		s.after(d, func() { s.resume(p) })
		for i := range p.slots {
			if c := p.slots[i].call; c == nil {
				s.think(p, i)
			} else if c.holds {
				s.keep(c)
			}
		}
	}
	s.after(s.opt.TTL/4, s.judge)
}

// judge looks each T/4 of the second phase whether all calls are over; when they
// are, it gives sessions of the dead the time to end and looks at what is left.
func (s *sim) judge() {
	s.report(s.served.judge(s.now))
	switch {
	case s.now.sub(s.served.since) <= 2*s.opt.TTL || !s.served.over():
		s.after(s.opt.TTL/4, s.judge)
		return
	case s.half:
		s.trace("THE LAST FAULTS END")
		s.net.calm()
		s.half, s.served.exempt, s.served.since = false, nil, s.now
		for _, p := range s.procs {
			p.down = false
			s.start(p)
		}
		s.after(s.opt.TTL/4, s.judge)
		return
	}
	s.after(settleTime*s.opt.TTL, s.probe)
}

// probe has each lock taken once more, from all members. A member keeps a grant
// whose Release was lost until somebody asks for the lock, or the session ends:
// nothing is repeated for a grant that nobody waits for. After the probe no
// excuse is left.
func (s *sim) probe() {
	s.stats.LeftBefore += s.countLeftover()
	for i := range s.opt.Locks {
		p := s.procs[s.rand.IntN(len(s.procs))]
		s.after(0, func() { p.awake(p.life, func() { s.takeOnce(p, lockName(i)) }) })
	}
	s.after(s.opt.TTL/4, s.judgeProbe)
}

func (s *sim) judgeProbe() {
	s.report(s.served.judge(s.now))
	if len(s.calls) > 0 {
		s.after(s.opt.TTL/4, s.judgeProbe)
		return
	}
	s.after(s.opt.TTL/2, func() {
		s.checkLeftover()
		s.finished = true
	})
}

// fail notes that driver and core do not agree; the first violation ends the run.
func (s *sim) fail(format string, args ...any) {
	s.report(&Violation{Kind: "driver", Text: fmt.Sprintf(format, args...)})
}

func (s *sim) report(v *Violation) {
	if v == nil || s.violation != nil {
		return
	}
	v.At = node.Duration(s.now)
	s.violation = v
	s.trace("VIOLATION %v", v)
}

func (s *sim) someLock() string { return lockName(s.rand.IntN(s.opt.Locks)) }

func lockName(i int) string { return fmt.Sprintf("lock%d", i) }

// tree returns the layout of a lock, as the members see it.
func (s *sim) tree(lock string) *quorum.Tree {
	rotation := 0
	if !s.opt.NoRotation {
		rotation = quorum.Rotation(lock, s.opt.Members)
	}
	t, err := quorum.New(s.opt.Members, rotation)
	if err != nil {
		s.fail("no tree: %v", err)
	}
	return t
}

// digest takes numbers into the hash that tells runs apart.
func (s *sim) digest(values ...uint64) {
	s.hash = (s.hash ^ uint64(s.now)) * 1099511628211
	for _, v := range values {
		s.hash = (s.hash ^ v) * 1099511628211
	}
}
