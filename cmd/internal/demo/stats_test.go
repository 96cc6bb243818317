package demo

import (
	"slices"
	"testing"
	"time"
)

func TestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		name     string
		sorted   []time.Duration
		percent  int
		expected time.Duration
	}{
		{"nothing", nil, 50, 0},
		{"one", []time.Duration{7}, 99, 7},
		{"one, lowest", []time.Duration{7}, 0, 7},
		{"two, the lower one is half of them", []time.Duration{1, 2}, 50, 1},
		{"three", []time.Duration{1, 2, 3}, 50, 2},
		{"three, p99 is the last", []time.Duration{1, 2, 3}, 99, 3},
		{"hundred", hundred, 50, 50},
		{"hundred, p99", hundred, 99, 99},
		{"hundred, all", hundred, 100, 100},
		{"hundred and one, p99", append(slices.Clone(hundred), 101), 99, 100},
	} {
		if got := rank(tc.sorted, tc.percent); got != tc.expected {
			t.Errorf("%s: p%d is %d, want %d", tc.name, tc.percent, got, tc.expected)
		}
	}
}

func TestQuantilesInMilliseconds(t *testing.T) {
	got := quantiles([]time.Duration{3 * time.Millisecond, 1 * time.Millisecond, 2345600 * time.Nanosecond})
	if want := (Quantiles{P50: 2.346, P99: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHandoverTimes(t *testing.T) {
	holds := []hold{ // in the order of their end
		{Process: 1, Call: 1, Had: 9, Entered: 10, Over: 20, Ending: left},
		{Process: 2, Call: 15, Entered: 23, Over: 30, Ending: left},     // 3: waited since 15
		{Process: 3, Call: 31, Entered: 40, Over: 50, Ending: left},     // called when it was free
		{Process: 3, Call: 45, Entered: 52, Over: 60, Ending: left},     // the same process
		{Process: 1, Call: 41, Entered: 65, Over: 70, Ending: died},     // 5
		{Process: 2, Call: 42, Entered: 90, Over: 110, Ending: expired}, // from the dead
		{Process: 1, Call: 43, Entered: 130, Over: 140, Ending: left},   // from the late
	}
	want := []time.Duration{3, 5}
	if got := handoverTimes(holds); !slices.Equal(got, want) {
		t.Errorf("hand-overs took %v, want %v", got, want)
	}
	slices.Reverse(holds)
	if got := handoverTimes(holds); !slices.Equal(got, want) {
		t.Errorf("in another order of ends hand-overs took %v, want %v", got, want)
	}
	if got := acquireTimes(holds[len(holds)-1:]); !slices.Equal(got, []time.Duration{8}) {
		t.Errorf("acquiring took %v, want 8ns", got)
	}
}
