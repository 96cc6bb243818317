package nodetest

import (
	"github.com/treequorum/dmutex/node"
)

// FaultKind is a kind of fault.
type FaultKind uint8

// The kinds of faults.
const (
	FaultCrash     FaultKind = iota + 1 // one process ends and starts again with nothing in memory
	FaultCrashMany                      // several at once
	FaultReboot                         // the same, and the clock begins anew
	FaultShutdown                       // one says goodbye and starts again
	FaultPause                          // one stands still
	FaultPauseMany                      // several do
	FaultCutOneWay                      // messages of one do not get to another
	FaultCutTwoWay                      // two do not hear each other
	FaultIsolate                        // one hears nobody and is not heard
	FaultDeaf                           // one is heard and hears nobody
	FaultDumb                           // one hears all and is not heard
	FaultSplit                          // two groups do not hear each other
	FaultBridge                         // the same, but for one that hears and is heard by both
	FaultPath                           // a path of a tree, which is a quorum, and the rest do not hear each other
	FaultSlow                           // one is slow to send and to receive
	FaultStorm                          // many messages are lost, doubled, late
	FaultRate                           // a clock runs at another rate
	FaultWall                           // a wall clock jumps
	FaultHint                           // gossip or transport say what is not so
	endOfFaultKinds
)

// String names the kind.
func (k FaultKind) String() string {
	switch k {
	case FaultCrash:
		return "crash"
	case FaultCrashMany:
		return "crash-many"
	case FaultReboot:
		return "reboot"
	case FaultShutdown:
		return "shutdown"
	case FaultPause:
		return "pause"
	case FaultPauseMany:
		return "pause-many"
	case FaultCutOneWay:
		return "cut-one-way"
	case FaultCutTwoWay:
		return "cut-two-way"
	case FaultIsolate:
		return "isolate"
	case FaultDeaf:
		return "deaf"
	case FaultDumb:
		return "dumb"
	case FaultSplit:
		return "split"
	case FaultBridge:
		return "bridge"
	case FaultPath:
		return "path"
	case FaultSlow:
		return "slow"
	case FaultStorm:
		return "storm"
	case FaultRate:
		return "rate"
	case FaultWall:
		return "wall"
	case FaultHint:
		return "hint"
	case endOfFaultKinds:
	}
	return "unknown"
}

// nextFault has the next fault come after a while, and so on until the first
// phase is over.
func (s *sim) nextFault() {
	f := &s.opt.Faults
	if f.Every == 0 || len(f.Kinds) == 0 {
		return
	}
	s.after(around(s.rand, f.Every), func() {
		if s.healed {
			return
		}
		kind := f.Kinds[s.rand.IntN(len(f.Kinds))]
		s.stats.Faults[kind]++
		s.inject(kind)
		s.nextFault()
	})
}

func (s *sim) inject(kind FaultKind) {
	switch kind {
	case FaultCrash:
		s.crash(s.target())
	case FaultCrashMany:
		for _, p := range s.group() {
			s.crash(p)
		}
	case FaultReboot:
		s.reboot(s.target())
	case FaultShutdown:
		s.shutdown(s.target())
	case FaultPause:
		s.pause(s.target(), s.pauseTime())
	case FaultPauseMany:
		for _, p := range s.group() {
			s.pause(p, s.pauseTime())
		}
	case FaultSlow:
		s.slow(s.target())
	case FaultStorm:
		s.storm()
	case FaultRate:
		s.changeRate(s.target())
	case FaultWall:
		s.jump(s.target())
	case FaultHint:
		s.mislead(s.target())
	case FaultCutOneWay, FaultCutTwoWay, FaultIsolate, FaultDeaf, FaultDumb, FaultSplit, FaultBridge, FaultPath:
		s.injectCut(kind)
	case endOfFaultKinds:
	}
}

func (s *sim) injectCut(kind FaultKind) {
	a, b := s.target(), s.aMember()
	switch kind {
	case FaultCutOneWay:
		s.cut(func(from, to *process) bool { return from == a && to == b })
	case FaultCutTwoWay:
		s.cut(func(from, to *process) bool { return from == a && to == b || from == b && to == a })
	case FaultIsolate:
		s.cut(func(from, to *process) bool { return from == a || to == a })
	case FaultDeaf:
		s.cut(func(_, to *process) bool { return to == a })
	case FaultDumb:
		s.cut(func(from, _ *process) bool { return from == a })
	default:
		side := make([]bool, len(s.procs))
		group := s.group()
		if kind == FaultPath {
			group = s.path()
		}
		for _, p := range group {
			side[p.index] = true
		}
		s.cut(func(from, to *process) bool {
			bridge := kind == FaultBridge && (from == b || to == b)
			return side[from.index] != side[to.index] && !bridge
		})
	}
}

// cut cuts all ways that blocked names, for a while.
func (s *sim) cut(blocked func(from, to *process) bool) {
	var ways [][2]int
	for _, from := range s.procs {
		for _, to := range s.procs {
			if from != to && blocked(from, to) {
				ways = append(ways, [2]int{from.index, to.index})
				s.net.cuts[from.index][to.index]++
			}
		}
	}
	s.trace("CUT of %v", ways)
	s.after(s.lasts(), func() {
		if s.healed {
			return // all cuts are gone
		}
		s.trace("cut of %v ends", ways)
		for _, w := range ways {
			s.net.cuts[w[0]][w[1]]--
		}
	})
}

func (s *sim) lasts() node.Duration { return around(s.rand, s.opt.Faults.Lasts) }

// pauseTime is a tenth of T to 20 T.
func (s *sim) pauseTime() node.Duration {
	ttl := s.opt.TTL
	return pick(s.rand, ttl/10, ttl/4, ttl/2, ttl, ttl+ttl/8, 2*ttl, 4*ttl, 20*ttl) + upTo(s.rand, ttl/4)
}

// crash ends a process; it starts again, at once or later.
func (s *sim) crash(p *process) {
	if p.core == nil {
		return
	}
	s.stop(p, "CRASHES")
	d := node.Duration(0)
	if chance(s.rand, 0.7) {
		d = s.lasts()
	}
	s.after(d, func() { s.start(p) })
}

func (s *sim) reboot(p *process) {
	if p.core == nil {
		return
	}
	s.stop(p, "REBOOTS")
	p.clock = clock{base: s.now, local: node.Instant(1 + upTo(s.rand, s.opt.TTL)), ppm: p.clock.ppm}
	s.after(s.lasts(), func() { s.start(p) })
}

// shutdown is a clean end.
func (s *sim) shutdown(p *process) {
	if p.core == nil || p.paused {
		return
	}
	now := p.now()
	s.trace("%s SHUTS DOWN", p.name)
	p.core.Shutdown(now)
	p.collect(now)
	s.stop(p, "ends")
	s.after(s.lasts(), func() { s.start(p) })
}

func (s *sim) slow(p *process) {
	d := upTo(s.rand, s.opt.TTL/2)
	s.trace("%s is SLOW by %s", p.name, seconds(d))
	s.net.slow[p.index] = d
	s.after(s.lasts(), func() { s.net.slow[p.index] = 0 })
}

func (s *sim) storm() {
	s.trace("STORM")
	s.net.opt.Loss = max(s.net.opt.Loss, pick(s.rand, 0, 0.2, 0.5))
	s.net.opt.Duplicate = max(s.net.opt.Duplicate, pick(s.rand, 0, 0.2))
	s.net.opt.Late, s.net.opt.MostLate = 0.3, upTo(s.rand, 2*s.opt.TTL)
	s.after(s.lasts(), func() {
		if !s.healed {
			s.net.opt = s.opt.Net
		}
	})
}

// changeRate lets a clock run at another rate within the bound.
func (s *sim) changeRate(p *process) {
	p.clock.setRate(s.now, s.rate())
	s.trace("%s clock runs at %+d ppm", p.name, p.clock.ppm)
	if p.core != nil && !p.paused {
		p.schedule(p.touched)
	}
}

// rate draws a rate of a clock.
func (s *sim) rate() int64 {
	d := s.opt.Drift
	if s.opt.Faults.Extreme {
		return pick(s.rand, -d, d)
	}
	return s.rand.Int64N(2*d+1) - d
}

func (s *sim) jump(p *process) {
	if s.opt.Faults.Walls {
		p.wallOff = s.wallOffset()
		s.trace("%s wall clock jumps to %s", p.name, seconds(p.wallOff))
	}
}

// wallOffset is up to ten days, or a little more than nothing.
func (s *sim) wallOffset() node.Duration {
	most := pick(s.rand, s.opt.TTL, 3600*node.Second, 864_000*node.Second)
	return upTo(s.rand, 2*most) - most
}

// mislead gives a hint that may be wrong.
func (s *sim) mislead(p *process) {
	about, kind := s.aMember(), s.rand.IntN(3)
	s.trace("%s is told about %s: %d", p.name, about.name, kind)
	p.hint(p.life, func(now node.Instant) {
		switch kind {
		case 0:
			p.core.PeerDead(now, about.name)
		case 1:
			p.core.PeerRefused(now, about.name)
		default:
			p.core.PeerAlive(now, about.name)
			if about != p {
				// Somebody started a process under that name with other settings.
				p.core.Step(now, node.Message{
					Type: node.MsgKeepAlive, From: about.name, To: p.name, FromIncarnation: node.Incarnation{Start: 1}, Sent: 1,
				})
			}
		}
	})
}
