package transport

import (
	"sync"
	"time"

	"github.com/treequorum/dmutex/node"
)

const (
	// maxBatch is how many bytes of frames go into one write. Small enough that a
	// slow receiver finds young messages at the front, large enough that system
	// calls do not count.
	maxBatch = 64 << 10
	// keepBuffer is how much memory a buffer keeps when it runs empty. With 16,384
	// connections more would add up.
	keepBuffer = 16 << 10
)

// queue holds encoded frames for one connection until its writer takes them. It
// is bounded in messages, bytes and age; the oldest frame gives way, because a
// newer message of the protocol is worth more than an older one.
type queue struct {
	maxMessages int
	maxBytes    int
	maxAge      time.Duration
	count       *counters
	ready       chan struct{} // of one: something may be in the queue

	mu      sync.Mutex
	enc     Encoder
	buf     []byte        // frames back to back; the live ones start at head
	head    int           // first live byte of buf
	frames  []queuedFrame // one for each frame in buf; the live ones start at first
	first   int           // first live element of frames
	lastPut time.Time
}

// queuedFrame is a frame's place in the queue.
type queuedFrame struct {
	size int
	at   time.Time
}

func newQueue(l *Limits, count *counters) *queue {
	return &queue{
		maxMessages: l.QueueMessages, maxBytes: l.QueueBytes, maxAge: l.QueueAge,
		count: count, ready: make(chan struct{}, 1),
	}
}

// put appends m, drops what is then too much, and wakes the writer.
func (q *queue) put(m *node.Message, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	start := len(q.buf)
	buf, err := q.enc.appendFrame(q.buf, m)
	if err != nil {
		q.count.encodeErrors.Add(1)
		return
	}
	q.buf = buf
	q.frames = append(q.frames, queuedFrame{size: len(buf) - start, at: now})
	q.lastPut = now
	for len(q.frames)-q.first > q.maxMessages || len(q.buf)-q.head > q.maxBytes {
		q.dropFirst()
		q.count.droppedFull.Add(1)
	}
	q.compact()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take appends the next frames to dst, up to maxBatch bytes or one frame, and
// says how many they are. What has waited too long is dropped.
func (q *queue) take(dst []byte, now time.Time) (batch []byte, frames int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first < len(q.frames) {
		f := q.frames[q.first]
		if now.Sub(f.at) > q.maxAge {
			q.dropFirst()
			q.count.droppedStale.Add(1)
			continue
		}
		if frames > 0 && len(dst)+f.size > maxBatch {
			break
		}
		dst = append(dst, q.buf[q.head:q.head+f.size]...)
		frames++
		q.dropFirst()
	}
	q.compact()
	return dst, frames
}

// discard empties the queue and says how many frames were in it.
func (q *queue) discard() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.frames) - q.first
	q.buf, q.frames = nil, nil
	q.head, q.first = 0, 0
	return n
}

// usedSince says whether something was put after t.
func (q *queue) usedSince(t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lastPut.After(t)
}

func (q *queue) dropFirst() {
	q.head += q.frames[q.first].size
	q.first++
}

// compact moves the live frames to the front once more than half of the memory is
// behind them, so that each byte is moved once on average.
func (q *queue) compact() {
	switch {
	case q.first == len(q.frames):
		q.buf, q.frames = q.buf[:0], q.frames[:0]
		q.head, q.first = 0, 0
		if cap(q.buf) > keepBuffer {
			q.buf, q.frames = nil, nil
		}
	case q.head > len(q.buf)/2:
		q.buf = q.buf[:copy(q.buf, q.buf[q.head:])]
		q.head = 0
		q.frames = q.frames[:copy(q.frames, q.frames[q.first:])]
		q.first = 0
	}
}
