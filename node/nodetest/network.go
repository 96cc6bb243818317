package nodetest

import "github.com/treequorum/dmutex/node"

// network carries messages between processes, or does not.
type network struct {
	opt   NetOptions
	slots []node.Message // of messages on their way or in an inbox
	free  []int32
	cuts  [][]int // cuts[from][to]: how many cuts are on that way now
	slow  []node.Duration
}

func newNetwork(opt NetOptions, nodes int) *network {
	n := &network{opt: opt, cuts: make([][]int, nodes), slow: make([]node.Duration, nodes)}
	for i := range n.cuts {
		n.cuts[i] = make([]int, nodes)
	}
	return n
}

// calm ends all trouble but a little delay.
func (n *network) calm() {
	n.opt = NetOptions{Delay: n.opt.Delay, Jitter: n.opt.Jitter}
	for i := range n.cuts {
		clear(n.cuts[i])
	}
	clear(n.slow)
}

// slot stores a copy of a message.
func (n *network) slot(m *node.Message) int32 {
	if k := len(n.free); k > 0 {
		i := n.free[k-1]
		n.free = n.free[:k-1]
		n.slots[i] = *m
		return i
	}
	n.slots = append(n.slots, *m)
	return int32(len(n.slots) - 1)
}

func (n *network) release(slot int32) { n.free = append(n.free, slot) }

// send puts a message on its way: it is lost, late or doubled as the seed says.
func (s *sim) send(from *process, m *node.Message) {
	s.stats.Messages++
	to, ok := s.byName[m.To]
	if !ok {
		s.fail("%s sends to %q, which nobody is called", from.name, m.To)
		return
	}
	if s.tracing && !keepAlive(m.Type) {
		s.trace("%s -> %s %s", from.name, m.To, describe(m))
	}
	if s.net.cuts[from.index][to.index] > 0 || s.net.opt.Loss > 0 && chance(s.rand, s.net.opt.Loss) {
		s.stats.LostMessages++
		s.refuse(from, to)
		return
	}
	s.deliverLater(from, to, m)
	if s.net.opt.Duplicate > 0 && chance(s.rand, s.net.opt.Duplicate) {
		s.deliverLater(from, to, m)
	}
}

func (s *sim) deliverLater(from, to *process, m *node.Message) {
	opt := &s.net.opt
	delay := opt.Delay + upTo(s.rand, opt.Jitter) + s.net.slow[from.index] + s.net.slow[to.index]
	if opt.Late > 0 && chance(s.rand, opt.Late) {
		delay += upTo(s.rand, opt.MostLate)
	}
	s.events.put(event{at: s.now.add(delay), kind: eventDeliver, who: int32(to.index), arg: s.net.slot(m)})
}

// deliver gives a message to its process: to its core, to the inbox of a paused
// one, to nobody when none runs.
func (s *sim) deliver(p *process, slot int32) {
	m := &s.net.slots[slot]
	switch {
	case p.core == nil:
		s.net.release(slot)
		if from := s.byName[m.From]; chance(s.rand, 0.5) {
			s.refuse(from, p)
		}
	case p.paused && len(p.inbox) < maxInbox:
		p.inbox = append(p.inbox, slot)
	case p.paused:
		s.net.release(slot)
	default:
		p.step(slot)
	}
}

// maxInbox bounds what a paused process has waiting, as sockets do.
const maxInbox = 2000

// refuse tells a sender now and then that the connection was refused, if nobody
// listens.
func (s *sim) refuse(from, to *process) {
	if to.core != nil || from.core == nil || s.healed || !chance(s.rand, 0.2) {
		return
	}
	life := from.life
	s.after(s.net.opt.Delay, func() { from.hint(life, func(now node.Instant) { from.core.PeerRefused(now, to.name) }) })
}
