package nodetest

import (
	"testing"

	"github.com/treequorum/dmutex/node"
)

func TestServedSeesWhoWaitsTooLong(t *testing.T) {
	p, q := &process{name: "p"}, &process{name: "q"}
	s := &served{waiting: make(map[node.CallID]*call), bound: 100, ttl: 10, since: 1000}
	early, late := &call{id: 1, who: p, started: 10}, &call{id: 2, who: q, started: 1050}
	s.waits(early)
	s.waits(late)
	wantKind(t, s.judge(1100), "")
	wantKind(t, s.judge(1101), "served")
	s.exempt = p
	wantKind(t, s.judge(1101), "")
	wantKind(t, s.judge(1151), "served")
	if s.over() {
		t.Error("over though q waits")
	}
	s.ends(late)
	wantKind(t, s.judge(5000), "")
	if !s.over() {
		t.Error("want it over: who waits is exempt")
	}
}

func TestLeftoverSeesWhatIsKept(t *testing.T) {
	wantKind(t, leftover("m", node.Status{Sessions: 3}), "")
	wantKind(t, leftover("m", node.Status{Locks: 1}), "leftover")
	wantKind(t, leftover("m", node.Status{Requests: 1}), "leftover")
}

func TestClockReadsAndFindsTheMoment(t *testing.T) {
	for _, ppm := range []int64{-200_000, -1, 0, 7, 200_000} {
		c := &clock{base: 1000, local: 500, ppm: ppm}
		for at := node.Instant(400); at < 2_000_000; at += 33_331 {
			m := c.when(at)
			if c.read(m) < at || m > c.base && c.read(m-1) >= at {
				t.Errorf("%d ppm: the clock shows %d first at %d, where it shows %d", ppm, at, m, c.read(m))
			}
		}
		before := c.read(5000)
		c.setRate(5000, -ppm)
		if got := c.read(5000); got != before {
			t.Errorf("%d ppm: a new rate moves the clock from %d to %d", ppm, before, got)
		}
	}
}

func TestEventsComeInOrder(t *testing.T) {
	var q events
	for i := range 200 {
		q.put(event{at: moment(i * 7919 % 50), arg: int32(i)})
	}
	last := event{at: -1}
	for range 200 {
		e, ok := q.take()
		if !ok || e.before(&last) {
			t.Fatalf("%v after %v, %v", e.at, last.at, ok)
		}
		last = e
	}
	if _, ok := q.take(); ok {
		t.Error("want it empty")
	}
}
