package runner

import (
	"testing"
	"time"
)

func TestWatchSteps(t *testing.T) {
	const (
		g        = time.Second
		deadline = 100 * time.Second
		tick     = 5 * time.Second
	)
	type look struct {
		now, deadline time.Duration
		want          action
	}
	tests := []struct {
		name  string
		looks []look
	}{
		{"nothing before 2G", []look{{0, deadline, actNothing}, {deadline - 2*g - 1, deadline, actNothing}}},
		{"term, then kill, each once", []look{
			{deadline - 2*g, deadline, actTerminate},
			{deadline - g - 1, deadline, actNothing},
			{deadline - g, deadline, actKill},
			{deadline, deadline, actNothing},
		}},
		{"kill at once when late", []look{{deadline - g, deadline, actKill}}},
		{"kill at once when very late", []look{{deadline + time.Hour, deadline, actKill}}},
		{"a deadline that moves on", []look{{deadline - 2*g - 1, deadline, actNothing}, {deadline, 2 * deadline, actNothing}}},
		{"one that moves on after term", []look{
			{deadline - 2*g, deadline, actTerminate},
			{deadline - g, 2 * deadline, actKill},
		}},
	}
	for _, test := range tests {
		w := watch{grace: g}
		for i, l := range test.looks {
			if got := w.step(l.now, l.deadline); got != l.want {
				t.Errorf("%s: look %d at %v: action %d, want %d", test.name, i, l.now, got, l.want)
			}
		}
	}

	w := watch{grace: g}
	if got := w.wait(0, deadline, tick); got != tick {
		t.Errorf("far from the deadline wait is %v, want the tick", got)
	}
	if got := w.wait(deadline-2*g-3, deadline, tick); got != 3 {
		t.Errorf("wait is %v, want the 3ns that are left until term", got)
	}
	w.step(deadline-2*g, deadline)
	if got := w.wait(deadline-2*g, 2*deadline, tick); got != g {
		t.Errorf("after term wait is %v, want G", got)
	}
	if got := w.wait(deadline, deadline, tick); got != 0 {
		t.Errorf("wait is %v, want none when kill is due", got)
	}

	w = watch{grace: g}
	w.over(7)
	if got := w.step(7, deadline); got != actKill {
		t.Errorf("after a loss: action %d, want kill", got)
	}
	w = watch{grace: g}
	w.end(deadline)
	if got := w.step(0, 2*deadline); got != actNothing {
		t.Errorf("after an early end: action %d, want none until the deadline known then", got)
	}
	if got := w.step(deadline-g, 2*deadline); got != actKill {
		t.Errorf("after an early end: action %d, want kill at the deadline known then - G", got)
	}
}
