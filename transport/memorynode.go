package transport

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/treequorum/dmutex/node"
)

// memoryNode is one node's transport on a Network.
type memoryNode struct {
	net   *Network
	name  string
	count counters
	inbox *inbox
	done  chan struct{} // closed when Close starts
	wg    sync.WaitGroup

	mu      sync.Mutex
	handler Handler // nil before Start
	closed  bool
	enc     Encoder
}

var _ Transport = (*memoryNode)(nil)

func newMemoryNode(n *Network, name string) *memoryNode {
	return &memoryNode{net: n, name: name, inbox: newInbox(), done: make(chan struct{})}
}

// Start implements [Transport].
func (m *memoryNode) Start(h Handler) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("%w: join the network again", ErrClosed)
	case m.handler != nil:
		return ErrStarted
	}
	if err := m.net.join(m); err != nil {
		return err
	}
	m.handler = h
	m.wg.Go(m.deliver)
	return nil
}

// Send implements [Transport].
func (m *memoryNode) Send(msg node.Message) {
	m.mu.Lock()
	open := m.handler != nil && !m.closed
	if !open || msg.From != m.name || msg.To == m.name {
		m.mu.Unlock()
		m.count.droppedNoRoute.Add(1)
		return
	}
	payload, err := m.enc.Append(nil, &msg)
	m.mu.Unlock()
	if err != nil {
		m.count.encodeErrors.Add(1)
		return
	}
	if !m.net.send(m, msg.To, payload, msg.Type.FromMember()) {
		m.count.droppedNoRoute.Add(1)
		return
	}
	m.count.framesOut.Add(1)
	m.count.writes.Add(1)
	m.count.bytesOut.Add(uint64(frameHeader + len(payload)))
}

// Stats implements [Transport].
func (m *memoryNode) Stats() Stats { return m.count.stats() }

// Close implements [Transport]. What was sent is under way already and arrives
// without this node, so there is nothing to drain.
func (m *memoryNode) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		m.net.leave(m)
		close(m.done)
	}
	ended := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("transport: close: Deliver of %q still blocks: it must return once its owner closes: %w", m.name, ctx.Err())
	}
}

// deliver hands over each parcel when it is due.
func (m *memoryNode) deliver() {
	var in Interner
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, wait, ok := m.inbox.next(time.Now())
		if ok {
			m.open(p, &in)
			if m.isDone() {
				return
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-due:
		case <-m.inbox.ready:
		case <-m.done:
			return
		}
	}
}

func (m *memoryNode) isDone() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// open decodes a parcel and calls the handler.
func (m *memoryNode) open(p parcel, in *Interner) {
	if p.payload == nil {
		m.count.dialsRefused.Add(1)
		m.handler.PeerRefused(p.from)
		return
	}
	msg, err := DecodeMessage(p.payload, in)
	if err != nil {
		m.count.decodeErrors.Add(1)
		return
	}
	m.count.framesIn.Add(1)
	m.count.bytesIn.Add(uint64(frameHeader + len(p.payload)))
	m.handler.Deliver(msg)
}

// inbox holds what is on its way to one node, the next due first.
type inbox struct {
	ready chan struct{} // of one: the head may have changed

	mu      sync.Mutex
	parcels parcelHeap
	seq     uint64
	from    map[string]int  // messages under way, by sender
	hinted  map[string]bool // names with a hint under way: one at a time is enough
}

func newInbox() *inbox {
	return &inbox{
		ready: make(chan struct{}, 1),
		from:  make(map[string]int), hinted: make(map[string]bool),
	}
}

// put adds a message and drops the oldest of its sender beyond the limit, counted
// for the sender.
func (b *inbox) put(p parcel, limit int, sender *counters) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from[p.from] >= limit && b.dropOldest(p.from) {
		sender.droppedFull.Add(1)
	}
	b.from[p.from]++
	b.push(p)
}

// hint adds the news that a name refused a connection.
func (b *inbox) hint(name string, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hinted[name] {
		return
	}
	b.hinted[name] = true
	b.push(parcel{due: due, from: name})
}

func (b *inbox) push(p parcel) {
	b.seq++
	p.seq = b.seq
	heap.Push(&b.parcels, p)
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// dropOldest loses the message of a sender that was sent first. It looks at all
// parcels, which only a full queue costs.
func (b *inbox) dropOldest(from string) bool {
	oldest := -1
	for i, p := range b.parcels {
		if p.from == from && p.payload != nil && (oldest < 0 || p.seq < b.parcels[oldest].seq) {
			oldest = i
		}
	}
	if oldest < 0 {
		return false
	}
	heap.Remove(&b.parcels, oldest)
	b.from[from]--
	return true
}

// next returns a parcel that is due, or how long it is until one is (0: none).
func (b *inbox) next(now time.Time) (p parcel, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parcels) == 0 {
		return parcel{}, 0, false
	}
	if wait = b.parcels[0].due.Sub(now); wait > 0 {
		return parcel{}, wait, false
	}
	p, _ = heap.Pop(&b.parcels).(parcel)
	if p.payload == nil {
		delete(b.hinted, p.from)
		return p, 0, true
	}
	b.from[p.from]--
	return p, 0, true
}

// parcelHeap implements heap.Interface.
type parcelHeap []parcel

func (h parcelHeap) Len() int { return len(h) }

func (h parcelHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].seq < h[j].seq
}

func (h parcelHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *parcelHeap) Push(x any) {
	if p, ok := x.(parcel); ok {
		*h = append(*h, p)
	}
}

// Pop implements heap.Interface.
func (h *parcelHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = parcel{}
	*h = old[:len(old)-1]
	return p
}
