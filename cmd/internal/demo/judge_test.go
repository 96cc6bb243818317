package demo

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// act is one thing that a judge is told.
type act func(t *testing.T, j *judge)

func enters(process int, seq uint64, had, entered, deadline time.Duration) act {
	return func(t *testing.T, j *judge) {
		t.Helper()
		if err := j.enter(hold{Process: process, Seq: seq, Had: had, Entered: entered, Deadline: deadline}); err != nil {
			t.Fatalf("enter of process %d: %v", process, err)
		}
	}
}

func leaves(process int, seq uint64, deadline, now time.Duration) act {
	return func(t *testing.T, j *judge) {
		t.Helper()
		if err := j.leave(process, seq, deadline, now); err != nil {
			t.Fatalf("leave of process %d: %v", process, err)
		}
	}
}

func renews(process int, seq uint64, deadline time.Duration) act {
	return func(_ *testing.T, j *judge) { j.renew(process, seq, deadline) }
}

func dies(process int, now time.Duration, held bool) act {
	return func(t *testing.T, j *judge) {
		t.Helper()
		if got := j.death(process, now); got != held {
			t.Fatalf("death of process %d says held %v, want %v", process, got, held)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name                         string
		acts                         []act
		overlaps, expired, handovers int
		over                         []time.Duration // ends in the record
	}{
		{
			name:      "one after the other",
			acts:      []act{enters(1, 1, 10, 11, 100), leaves(1, 1, 100, 20), enters(2, 1, 21, 22, 110), leaves(2, 1, 110, 30)},
			handovers: 1, over: []time.Duration{20, 30},
		},
		{
			name: "the same one again is no hand-over",
			acts: []act{enters(1, 1, 10, 11, 100), leaves(1, 1, 100, 20), enters(1, 2, 21, 22, 110), leaves(1, 2, 110, 30)},
			over: []time.Duration{20, 30},
		},
		{
			name:     "enter while another is inside",
			acts:     []act{enters(1, 1, 10, 11, 100), enters(2, 1, 15, 16, 100)},
			overlaps: 1, handovers: 1,
		},
		{
			name:     "one that enters while two are inside counts once",
			acts:     []act{enters(1, 1, 10, 11, 100), enters(2, 1, 15, 16, 100), enters(3, 1, 16, 17, 100)},
			overlaps: 2, handovers: 2,
		},
		{
			name:     "had the lock before the other left, told after",
			acts:     []act{enters(1, 1, 10, 11, 100), leaves(1, 1, 100, 20), enters(2, 1, 19, 21, 110)},
			overlaps: 1, handovers: 1, over: []time.Duration{20},
		},
		{
			name:      "had it at the very moment the other was out",
			acts:      []act{enters(1, 1, 10, 11, 100), leaves(1, 1, 100, 20), enters(2, 1, 20, 21, 110)},
			handovers: 1, over: []time.Duration{20},
		},
		{
			name:      "past its deadline it is out",
			acts:      []act{enters(1, 1, 10, 11, 100), enters(2, 1, 100, 120, 200), leaves(1, 1, 100, 130)},
			handovers: 1, expired: 1, over: []time.Duration{100},
		},
		{
			name:     "just before its deadline it is not",
			acts:     []act{enters(1, 1, 10, 11, 100), enters(2, 1, 99, 120, 200)},
			overlaps: 1, handovers: 1,
		},
		{
			name:    "late with nobody after it",
			acts:    []act{enters(1, 1, 10, 11, 100), leaves(1, 1, 100, 130)},
			expired: 1, over: []time.Duration{100},
		},
		{
			name:     "a renewal moves the deadline",
			acts:     []act{enters(1, 1, 10, 11, 100), renews(1, 1, 150), enters(2, 1, 120, 121, 200)},
			overlaps: 1, handovers: 1,
		},
		{
			name: "a renewal does not move it back",
			acts: []act{enters(1, 1, 10, 11, 100), renews(1, 1, 50), leaves(1, 1, 60, 80)},
			over: []time.Duration{80},
		},
		{
			name:     "a renewal read late: the first to enter since did so too early",
			acts:     []act{enters(1, 1, 10, 11, 100), enters(2, 1, 110, 111, 115), enters(3, 1, 160, 161, 200), renews(1, 1, 150)},
			overlaps: 1, handovers: 2, expired: 1, // process 2; process 1 is not
		},
		{
			name:      "a renewal read late, and nobody entered too early",
			acts:      []act{enters(1, 1, 10, 11, 100), enters(2, 1, 160, 161, 300), leaves(1, 1, 150, 170)},
			handovers: 1, expired: 1, over: []time.Duration{150},
		},
		{
			name:      "the renewal of another hold is nothing",
			acts:      []act{enters(1, 2, 10, 11, 100), renews(1, 1, 150), renews(2, 2, 150), enters(2, 1, 110, 111, 200)},
			handovers: 1, expired: 1,
		},
		{
			name:      "a dead one is out",
			acts:      []act{enters(1, 1, 10, 11, 100), dies(1, 20, true), enters(2, 1, 21, 22, 110)},
			handovers: 1, over: []time.Duration{20},
		},
		{
			name:     "but not before it was dead",
			acts:     []act{enters(1, 1, 10, 11, 100), dies(1, 20, true), enters(2, 1, 19, 22, 110)},
			overlaps: 1, handovers: 1, over: []time.Duration{20},
		},
		{
			name:      "a death read late ends it at its deadline",
			acts:      []act{enters(1, 1, 10, 11, 100), dies(1, 300, true), enters(2, 1, 110, 301, 400)},
			handovers: 1, over: []time.Duration{100},
		},
		{
			name:      "a death after the deadline",
			acts:      []act{enters(1, 1, 10, 11, 100), enters(2, 1, 110, 111, 400), dies(1, 300, false), dies(3, 300, false)},
			handovers: 1, expired: 1, over: []time.Duration{100},
		},
		{
			name:      "a clock that runs ahead does not help",
			acts:      []act{enters(1, 1, 10, 11, 100), enters(2, 1, 1000, 50, 200)},
			overlaps:  1,
			handovers: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := newJudge()
			for _, a := range tc.acts {
				a(t, j)
			}
			if j.overlaps != tc.overlaps || j.expired != tc.expired || j.handovers != tc.handovers {
				t.Errorf("overlaps %d, expired %d, hand-overs %d; want %d, %d, %d",
					j.overlaps, j.expired, j.handovers, tc.overlaps, tc.expired, tc.handovers)
			}
			var over []time.Duration
			for _, h := range j.past {
				over = append(over, h.Over)
			}
			if !slices.Equal(over, tc.over) {
				t.Errorf("holds ended at %v, want %v", over, tc.over)
			}
		})
	}
}

func TestJudgeRefusesWhatCannotBe(t *testing.T) {
	j := newJudge()
	enters(1, 1, 10, 11, 100)(t, j)
	if err := j.enter(hold{Process: 1, Seq: 2, Had: 20, Entered: 21, Deadline: 120}); err == nil {
		t.Error("a process that is inside entered again, want an error")
	}
	if err := j.leave(2, 1, 100, 30); err == nil {
		t.Error("a process that is not inside left, want an error")
	}
	leaves(1, 1, 100, 30)(t, j)
	if err := j.leave(1, 1, 100, 31); err == nil {
		t.Error("a process left twice, want an error")
	}
	enters(1, 3, 40, 41, 50)(t, j)
	enters(2, 1, 60, 61, 100)(t, j) // process 1 is late now
	if err := j.enter(hold{Process: 1, Seq: 4, Had: 110, Entered: 111, Deadline: 200}); err == nil {
		t.Error("a process that came out of nothing entered again, want an error")
	}
}

// told is one line of a made-up run, as the judge reads it.
type told struct {
	at      time.Duration
	kind    string
	process int
	seq     uint64
	h       hold
}

// TestJudgeAgainstIntervals makes up runs of processes that have the lock when
// they like, and compares the judge with all pairs of the true intervals.
func TestJudgeAgainstIntervals(t *testing.T) {
	var clean, dirty int
	for seed := range uint64(4000) {
		lines, intervals := madeUpRun(rand.New(rand.NewPCG(seed, 1)))
		want := false
		for i, a := range intervals {
			for _, b := range intervals[i+1:] {
				want = want || (a.Process != b.Process && a.Had < b.Over && b.Had < a.Over)
			}
		}
		j := newJudge()
		for _, l := range lines {
			var err error
			switch l.kind {
			case kindEnter:
				l.h.Entered = l.at
				err = j.enter(l.h)
			case kindRenew:
				j.renew(l.process, l.seq, l.h.Deadline)
			case kindLeave:
				err = j.leave(l.process, l.seq, l.h.Deadline, l.at)
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if got := j.overlaps > 0; got != want {
			t.Fatalf("seed %d: the judge saw %d overlaps, but the intervals %+v overlap: %v", seed, j.overlaps, intervals, want)
		}
		if want {
			dirty++
		} else {
			clean++
		}
	}
	if clean < 200 || dirty < 200 {
		t.Errorf("%d clean and %d dirty runs, want at least 200 of each for the comparison to mean something", clean, dirty)
	}
}

// madeUpRun returns what the judge reads and when each process truly had the lock.
// What a process says is read in its order, some time after it was said; the
// leave counts when it is read, since the process waits for the answer.
func madeUpRun(r *rand.Rand) (lines []told, intervals []hold) {
	between := func(low, high int) time.Duration { return time.Duration(low + r.IntN(high-low)) }
	spread := 20 + r.IntN(400)
	for process := range 3 {
		now := between(0, spread)
		for seq := range uint64(1 + r.IntN(3)) {
			h := hold{Process: process, Seq: seq, Had: now, Deadline: now + between(10, 40)}
			now += between(1, 5)
			lines = append(lines, told{now, kindEnter, process, seq, h})
			if r.IntN(2) == 0 && now < h.Deadline { // renewed before the deadline, read whenever
				h.Deadline += between(5, 40)
				now += between(1, 40)
				lines = append(lines, told{now, kindRenew, process, seq, h})
			}
			now += between(1, 50)
			lines = append(lines, told{now, kindLeave, process, seq, h})
			h.Over = min(now, h.Deadline)
			intervals = append(intervals, h)
			now += between(1, spread)
		}
	}
	slices.SortStableFunc(lines, func(a, b told) int { return cmp.Compare(a.at, b.at) })
	return lines, intervals
}
