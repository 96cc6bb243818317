package node

// timer is a place in the node's heap of things to do. An owner embeds one; at
// most one entry of each owner is in the heap. Entries that are due at one moment
// fire in the order in which they were set, so that runs repeat exactly.
type timer struct {
	at    Instant
	seq   uint64
	pos   int // 1 + index in the heap; 0 when not in it
	owner timed
}

// timed is what a timer wakes.
type timed interface{ due(n *Node) }

type timers struct {
	heap []*timer
	seq  uint64
}

// set moves t to at, or puts it there.
func (h *timers) set(t *timer, at Instant) {
	if t.pos > 0 && t.at == at {
		return
	}
	h.seq++
	t.at, t.seq = at, h.seq
	if t.pos == 0 {
		h.heap = append(h.heap, t)
		t.pos = len(h.heap)
	}
	h.fix(t.pos - 1)
}

// setEarlier is set, but never moves t back.
func (h *timers) setEarlier(t *timer, at Instant) {
	if t.pos == 0 || at < t.at {
		h.set(t, at)
	}
}

// stop takes t out of the heap.
func (h *timers) stop(t *timer) {
	if t.pos == 0 {
		return
	}
	i, last := t.pos-1, len(h.heap)-1
	h.swap(i, last)
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.pos = 0
	if i < last {
		h.fix(i)
	}
}

// pop returns the first timer that is due at now, taken out, or nil.
func (h *timers) pop(now Instant) *timer {
	if len(h.heap) == 0 || h.heap[0].at > now {
		return nil
	}
	t := h.heap[0]
	h.stop(t)
	return t
}

// next is the moment of the first timer.
func (h *timers) next() (Instant, bool) {
	if len(h.heap) == 0 {
		return 0, false
	}
	return h.heap[0].at, true
}

func (h *timers) less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *timers) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].pos, h.heap[j].pos = i+1, j+1
}

func (h *timers) fix(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.heap); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
