package runner

import "time"

// action is what has to be done to the command now.
type action int

const (
	actNothing action = iota
	actTerminate
	actKill
)

// watch decides when a command has to end. It has no clock: step is told the
// time. Once it has started to end the command nothing takes that back.
type watch struct {
	grace  time.Duration
	ending bool
	killed bool
	killAt time.Duration
}

// step returns what to do at now, under a lease that is held until deadline.
func (w *watch) step(now, deadline time.Duration) action {
	switch {
	case w.killed:
		return actNothing
	case w.ending && now >= w.killAt, !w.ending && now >= deadline-w.grace:
		w.ending, w.killed = true, true
		return actKill
	case !w.ending && now >= deadline-2*w.grace:
		w.end(deadline)
		return actTerminate
	}
	return actNothing
}

// end starts the end early, with KILL at the deadline known now: one that is
// told later would only draw it out.
func (w *watch) end(deadline time.Duration) {
	w.ending = true
	w.killAt = deadline - w.grace
}

// over makes the next step kill: the lock is somebody else's any moment.
func (w *watch) over(now time.Duration) {
	w.ending = true
	w.killAt = now
}

// wait returns how long step need not be called, at most tick.
func (w *watch) wait(now, deadline, tick time.Duration) time.Duration {
	next := deadline - 2*w.grace
	if w.ending {
		next = w.killAt
	}
	if w.killed {
		return tick
	}
	return max(0, min(next-now, tick))
}
