package transport

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// takeAll decodes everything that take gives.
func takeAll(t interface{ Fatalf(string, ...any) }, q *queue, now time.Time) (numbers []int, batches int) {
	for {
		batch, frames := q.take(nil, now)
		if frames == 0 {
			return numbers, batches
		}
		batches++
		if len(batch) > maxBatch && frames > 1 {
			t.Fatalf("a batch of %d bytes in %d frames, want at most %d bytes", len(batch), frames, maxBatch)
		}
		for ; frames > 0; frames-- {
			n := int(binary.BigEndian.Uint32(batch))
			m, err := DecodeMessage(batch[frameHeader:frameHeader+n], nil)
			if err != nil {
				t.Fatalf("frame does not decode: %v", err)
			}
			numbers = append(numbers, int(m.ID.Counter))
			batch = batch[frameHeader+n:]
		}
		if len(batch) != 0 {
			t.Fatalf("%d bytes behind the last frame", len(batch))
		}
	}
}

// TestQueueModel compares the queue with a plain list: bounds in number, bytes and
// age, the oldest lost first, the order kept, every loss counted.
func TestQueueModel(t *testing.T) {
	type item struct {
		number, size int
		at           time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		var count counters
		lim := Limits{
			QueueMessages: rapid.IntRange(1, 40).Draw(t, "messages"),
			QueueBytes:    rapid.IntRange(300, 8000).Draw(t, "bytes"), QueueAge: 100,
		}
		q := newQueue(&lim, &count)
		var model []item
		var full, stale uint64
		now := time.Unix(0, 0)
		for number := range rapid.IntRange(0, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "passes")))
			if rapid.IntRange(0, 9).Draw(t, "what") > 0 {
				m := request("a", "b", number)
				m.Label = strings.Repeat("x", rapid.IntRange(0, MaxLabel).Draw(t, "label"))
				frame, err := new(Encoder).appendFrame(nil, &m)
				if err != nil {
					t.Fatalf("%v", err)
				}
				q.put(&m, now)
				model = append(model, item{number: number, size: len(frame), at: now})
				total := 0
				for _, i := range model {
					total += i.size
				}
				for len(model) > lim.QueueMessages || total > lim.QueueBytes {
					total -= model[0].size
					model = model[1:]
					full++
				}
				continue
			}
			var want []int
			for _, i := range model {
				if now.Sub(i.at) > lim.QueueAge {
					stale++
					continue
				}
				want = append(want, i.number)
			}
			model = nil
			got, _ := takeAll(t, q, now)
			if len(got) != len(want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("got %v, want %v", got, want)
				}
			}
		}
		if s := count.stats(); s.DroppedFull != full || s.DroppedStale != stale {
			t.Fatalf("counted %d full and %d stale, want %d and %d", s.DroppedFull, s.DroppedStale, full, stale)
		}
	})
}

// TestQueueMemory: a queue that nobody empties stays within its bound, and gives
// its memory back once it is empty.
func TestQueueMemory(t *testing.T) {
	lim := Limits{}.withDefaults()
	q := newQueue(&lim, new(counters))
	now := time.Now()
	for i := range 20_000 {
		m := request("a", "b", i)
		q.put(&m, now)
		if cap(q.buf) > 4*lim.QueueBytes || cap(q.frames) > 8*lim.QueueMessages {
			t.Fatalf("after %d messages it holds %d bytes and %d frames", i+1, cap(q.buf), cap(q.frames))
		}
	}
	got, batches := takeAll(t, q, now)
	if len(got) != lim.QueueMessages || got[0] != 20_000-lim.QueueMessages {
		t.Errorf("took %d messages, the first number %d, want the last %d", len(got), got[0], lim.QueueMessages)
	}
	if batches > 4 {
		t.Errorf("%d batches, want 4 at most", batches)
	}
	if cap(q.buf) > keepBuffer {
		t.Errorf("an empty queue holds %d bytes, want %d at most", cap(q.buf), keepBuffer)
	}
}

// TestQueueSteadyState: put and take with reused memory allocate nothing.
func TestQueueSteadyState(t *testing.T) {
	lim := Limits{}.withDefaults()
	q := newQueue(&lim, new(counters))
	now := time.Now()
	m := request("a", "b", 1)
	var batch []byte
	if n := testing.AllocsPerRun(1000, func() {
		for range 3 {
			q.put(&m, now)
		}
		batch, _ = q.take(batch[:0], now)
	}); n != 0 {
		t.Errorf("%v allocations for three messages, want 0", n)
	}
}
