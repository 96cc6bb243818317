package nodetest

import (
	"github.com/treequorum/dmutex/node"
)

// process is one name of the cluster: a core and the driver that owns it while it
// runs. Its machine's clock outlives it.
type process struct {
	sim     *sim
	index   int // members first, then clients
	name    string
	clock   clock
	wallOff node.Duration // how far its wall clock is off

	core     *node.Node // nil while it does not run
	down     bool       // must not start
	life     int        // counts the starts and ends; what belongs to a former life is void
	paused   bool
	resumeAt moment
	inbox    []int32  // messages that came while paused
	waiting  []func() // what callers asked for meanwhile
	wakeAt   moment   // of the wake event that counts
	touched  node.Instant
	asked    node.Instant // when it was last asked whether it knows its floors
	replaced bool         // told that another process runs under its name
	acquired bool         // told of a new lease in this step
	claims   []*claim
	slots    []slot
}

func (p *process) now() node.Instant { return p.clock.read(p.sim.now) }

// wall returns the wall clock in nanoseconds.
func (p *process) wall() int64 { return wallStart + int64(p.sim.now) + int64(p.wallOff) }

// wallStart is when the run begins on a wall clock that is right.
const wallStart = int64(1_700_000_000) * int64(node.Second)

// start runs a new core under this name, with nothing in memory.
func (s *sim) start(p *process) {
	if p.core != nil || p.down {
		return
	}
	p.life++
	now := p.now()
	core, err := node.New(node.Config{
		Name: p.name, Members: s.members, Cluster: "sim", LeaseTTL: s.opt.TTL, Drift: s.opt.Drift,
		NoRotation: s.opt.NoRotation, TreeOnly: s.opt.TreeOnly,
		Standalone:  s.opt.Members == 1 && s.opt.Clients == 0,
		Incarnation: node.Incarnation{Start: p.wall(), Random: s.rand.Uint64() | 1},
		Seed:        s.rand.Uint64(), Limits: node.Limits{Floors: s.opt.Floors}, Breakage: s.opt.Broken,
	}, now, p.wall())
	if err != nil {
		s.fail("%s does not start: %v", p.name, err)
		return
	}
	p.core, p.paused, p.replaced, p.acquired, p.wakeAt, p.touched, p.asked = core, false, false, false, never, now, now
	s.trace("%s starts, clock %d, %+d ppm", p.name, now, p.clock.ppm)
	s.tokens.memory(p.index, false)
	p.collect(now)
	s.tickWall(p)
	s.startCallers(p)
}

// stop ends the process at once: it knows nothing any more and holds nothing.
func (s *sim) stop(p *process, why string) {
	if p.core == nil {
		return
	}
	s.trace("%s %s", p.name, why)
	s.countRules(p)
	p.core, p.paused = nil, false
	p.life++
	for _, slot := range p.inbox {
		s.net.release(slot)
	}
	p.inbox, p.waiting, p.replaced = p.inbox[:0], nil, false
	for _, c := range p.claims {
		s.exclusion.end(c)
	}
	p.claims = p.claims[:0]
	s.dropCalls(p)
	if p.index < s.opt.Members {
		s.tokens.memory(p.index, false)
	}
}

// awake runs f now, or when the pause is over; not at all in another life.
func (p *process) awake(life int, f func()) {
	switch {
	case p.life != life || p.core == nil:
	case p.paused:
		p.waiting = append(p.waiting, f)
	default:
		f()
	}
}

// hint passes a hint of transport or gossip.
func (p *process) hint(life int, f func(now node.Instant)) {
	p.awake(life, func() {
		now := p.now()
		f(now)
		p.collect(now)
	})
}

// pause stops the driver; messages pile up and clocks run on.
func (s *sim) pause(p *process, d node.Duration) {
	if p.core == nil || p.paused {
		return
	}
	s.trace("%s pauses for %s", p.name, seconds(d))
	p.paused, p.resumeAt = true, s.now.add(d)
	life := p.life
	s.after(d, func() {
		if p.life == life {
			s.resume(p)
		}
	})
}

// resume lets the driver go on: sometimes it first does what is due, sometimes a
// message or a caller comes first. The core must look at the time in any case.
func (s *sim) resume(p *process) {
	if p.core == nil || !p.paused {
		return
	}
	s.trace("%s resumes", p.name)
	p.paused = false
	order := s.rand.IntN(3)
	if order == 0 {
		p.tick()
	}
	inbox, waiting, life := p.inbox, p.waiting, p.life
	p.inbox, p.waiting = nil, nil
	for i := range waiting {
		if order != 2 {
			p.awake(life, waiting[i])
		}
	}
	for i, slot := range inbox {
		if p.life != life {
			for _, rest := range inbox[i:] {
				s.net.release(rest)
			}
			return
		}
		p.step(slot)
	}
	for i := range waiting {
		if order == 2 {
			p.awake(life, waiting[i])
		}
	}
	if p.life == life {
		p.tick()
	}
}

func (p *process) step(slot int32) {
	now := p.now()
	m := p.sim.net.slots[slot]
	p.sim.net.release(slot)
	if p.sim.tracing && !keepAlive(m.Type) {
		p.sim.trace("    %s <- %s %v", p.name, m.From, m.Type)
	}
	p.core.Step(now, m)
	p.collect(now)
}

func (p *process) tick() {
	now := p.now()
	p.core.Tick(now)
	p.sim.watchMemory(p, now)
	p.collect(now)
}

// collect takes what a call left behind: deadlines, messages, events.
func (p *process) collect(now node.Instant) {
	s := p.sim
	p.touched = now
	s.watchClaims(p, now)
	p.takeOutput()
	if p.acquired {
		// The deadline of a new claim may have moved in the same step.
		p.acquired = false
		s.watchClaims(p, now)
		p.takeOutput()
	}
	if p.replaced {
		s.stop(p, "stops: another process runs under its name")
		s.after(around(s.rand, s.opt.TTL/4), func() { s.start(p) })
		return
	}
	p.schedule(now)
}

func (p *process) takeOutput() {
	s := p.sim
	out := p.core.Take()
	for i := range out.Messages {
		s.digest(uint64(out.Messages[i].Type), out.Messages[i].Number, uint64(out.Messages[i].Timestamp))
		s.send(p, &out.Messages[i])
	}
	for i := range out.Events {
		s.digest(uint64(out.Events[i].Type), uint64(out.Events[i].Call), out.Events[i].Token)
		s.happened(p, &out.Events[i])
	}
}

// schedule has the core ticked when it wants to be, and at least each T/16.
func (p *process) schedule(now node.Instant) {
	s := p.sim
	at := p.clock.when(min(p.core.Wake(), now.Add(s.opt.TTL/16)))
	if at >= p.wakeAt {
		return
	}
	at = max(at, s.now)
	p.wakeAt = at
	if s.opt.Faults.Lazy > 0 && !s.healed {
		at = at.add(upTo(s.rand, s.opt.Faults.Lazy))
		p.wakeAt = at
	}
	s.events.put(event{at: at, kind: eventWake, who: int32(p.index), arg: int32(p.life)})
}

// wake ticks the core if it is time. A wake event that was overtaken by an
// earlier one, or was put in for a moment that has moved back, is not.
func (s *sim) wake(p *process, e *event) {
	if p.core == nil || p.life != int(e.arg) || p.wakeAt != e.at {
		return
	}
	p.wakeAt = never
	if p.paused {
		return // resume ticks
	}
	if now := p.now(); now < p.core.Wake() && now < p.touched.Add(s.opt.TTL/16) {
		p.schedule(p.touched)
		return
	}
	p.tick()
}

// tickWall tells the core its wall clock each T.
func (s *sim) tickWall(p *process) {
	life := p.life
	s.after(s.opt.TTL, func() {
		if p.life != life {
			return
		}
		p.awake(life, func() {
			now := p.now()
			p.core.SetWall(now, p.wall())
			p.collect(now)
		})
		s.tickWall(p)
	})
}
