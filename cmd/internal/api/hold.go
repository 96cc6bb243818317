package api

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
)

// watchEvery is how often the processes of a caller that is gone are looked at.
const watchEvery = 100 * time.Millisecond

// hold is a lock that a session has. Its fields belong to the goroutine of keep.
type hold struct {
	*session

	lease  Lease
	token  uint64
	tokens chan uint64

	told    time.Duration // the deadline that the caller knows
	span    time.Duration // how much was left of it when it was told
	again   bool          // there is more to tell than a later deadline
	warned  bool          // it knows that told does not move on
	frozen  bool          // the server shuts down: told is the end
	endBy   time.Duration // once frozen: when the hold ends at the latest
	left    bool          // the connection has ended
	checked time.Duration // when the caller's processes were last looked at
	group   Group
	said    bool // that processes outlive what they were told was logged
}

func newHold(s *session, lease Lease) *hold {
	return &hold{session: s, lease: lease, tokens: make(chan uint64, 1)}
}

// keep serves the hold to its end.
func (h *hold) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if h.hello.Token {
		go h.fetchToken(ctx)
	}
	gone := h.gone
	timer := time.NewTimer(0) // for looks at clock, deadline and processes
	defer timer.Stop()
	for {
		// Time and processes come first, whatever woke this goroutine.
		if h.isOver() {
			return
		}
		h.tell()
		timer.Reset(h.pause())
		select {
		case <-h.lease.Done():
			h.out.write(State{State: KindLost, Reason: h.lease.Loss()})
			return
		case <-timer.C:
		case h.token = <-h.tokens:
			h.again = true
		case u := <-h.updates:
			if h.update(u) {
				return
			}
		case fault := <-h.faults:
			h.out.write(fault.state())
			h.leave("the caller sent a wrong line")
		case <-gone:
			gone = nil
			h.leave("the connection ended without a release")
		case <-h.closing:
			h.closing = nil
			h.freeze()
		}
	}
}

// pause is how long nothing need be looked at: a lease that depends on votes is
// renewed often and never lasts long.
func (h *hold) pause() time.Duration {
	switch {
	case h.left, h.frozen && h.watched:
		return min(h.cfg.TTL/16, watchEvery)
	case h.told-h.cfg.Clock() < h.cfg.TTL/2:
		return h.cfg.TTL / 64
	}
	return h.cfg.TTL / 16
}

// fetchToken gets the fencing token in the background. A failed try is repeated:
// while a majority of the members has lost its memory there is no token yet.
func (h *hold) fetchToken(ctx context.Context) {
	for ctx.Err() == nil {
		token, err := h.lease.Token(ctx)
		if err == nil {
			h.tokens <- token // the only one: it has room
			return
		}
		timer := time.NewTimer(h.cfg.TTL / 4)
		select {
		case <-timer.C:
		case <-h.lease.Done():
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell sends the deadline when it has moved on, or warns that it does not.
func (h *hold) tell() {
	if h.frozen || h.left {
		return
	}
	now, deadline := h.cfg.Clock(), h.lease.BootDeadline()
	if !h.watched {
		// Without pings the hold ends then, so that is all the caller may count on.
		deadline = min(deadline, h.lastPing+h.cfg.TTL)
	}
	switch {
	case (deadline > h.told || h.again) && deadline > now:
		h.told, h.span, h.again, h.warned = deadline, deadline-now, false, false
		h.out.write(State{
			State: KindHeld, DeadlineNS: int64(deadline), RemainingNS: int64(deadline - now), BootID: h.cfg.BootID,
			TTLMS: h.cfg.TTL.Milliseconds(), Ping: h.ping, Token: h.token,
		})
	case !h.warned && h.told-now < h.span/2:
		h.warned = true
		h.out.write(State{State: KindLosing, Reason: ReasonNotRenewed, RemainingNS: int64(max(0, h.told-now))})
	}
}

// update takes a line of the caller, and reports whether it ended the hold.
func (h *hold) update(u Update) bool {
	switch {
	case u.Release:
		h.unlock(context.Background(), h.lease)
		h.out.write(State{State: KindReleased})
		return true
	case u.Ping != 0:
		h.pinged(u.Ping)
	case h.group.ID != 0:
		h.out.write(badRequest("the group was told before").state())
		h.leave("the caller sent a wrong line")
	default:
		h.group = Group{ID: u.Group, LeaderStart: u.GroupLeaderStart, Guard: u.Guard, GuardStart: u.GuardStart}
		if h.watched && !h.groupSeen() {
			h.watched = false // only pings tell that it lives
		}
		h.out.write(State{State: KindGrouped, Watched: h.watched})
	}
	return false
}

// groupSeen reports whether the processes of a group that was just told can be
// seen from here.
func (h *hold) groupSeen() bool {
	starts := h.cfg.Processes.StartTime
	return starts(h.group.ID) == h.group.LeaderStart && (h.group.Guard == 0 || starts(h.group.Guard) == h.group.GuardStart)
}

// leave goes on without a connection.
func (h *hold) leave(why string) {
	if h.left {
		return
	}
	h.left = true
	h.out.broken = true
	log := h.log.WithField("pid", h.hello.PID).WithField("group", h.group.ID)
	if h.watched {
		log.Info(why + "; the lock stays held until the caller's processes are dead")
	} else {
		log.Info(why + "; the lock stays held until the lease's length after the last ping")
	}
}

// freeze tells the caller to end by the deadline that it knows.
func (h *hold) freeze() {
	now := h.cfg.Clock()
	h.frozen = true
	h.endBy = h.told
	if h.left || h.told == 0 {
		h.endBy = now + h.cfg.TTL
	}
	h.out.write(State{State: KindLosing, Reason: ReasonClosing, RemainingNS: int64(max(0, h.endBy-now))})
}

// isOver ends the hold when its caller is dead, has fallen silent, or had its
// time after the server was told to close; and reports that. Nothing but the end
// of the lease takes the lock from processes that can be seen to live.
func (h *hold) isOver() bool {
	now := h.cfg.Clock()
	var reason string
	switch {
	case !h.watched && now >= h.lastPing+h.cfg.TTL:
		reason = "no ping for " + h.cfg.TTL.String()
	case !h.watched && h.frozen && now >= h.endBy:
		reason = ReasonClosed
	case h.watched && (h.left || h.frozen && now >= h.endBy) && now-h.checked >= watchEvery:
		h.checked = now
		if h.living() {
			h.sayOverdue(now)
			return false
		}
		reason = "caller is dead"
	default:
		return false
	}
	h.log.WithField("reason", reason).Info("hold ended")
	h.unlock(context.Background(), h.lease)
	h.out.write(State{State: KindLost, Reason: reason})
	return true
}

// sayOverdue warns, once, of processes that go on after the time that they were
// told.
func (h *hold) sayOverdue(now time.Duration) {
	if h.said || !h.frozen || now < h.endBy {
		return
	}
	h.said = true
	h.log.WithFields(logrus.Fields{"pid": h.hello.PID, "group": h.group.ID, "guard": h.group.Guard}).
		Warn("processes still run under the lock after the time they were told to end by; it stays held while they do: end them")
}

// living reports whether the caller, its guard, or anything in its group, runs.
func (h *hold) living() bool {
	p, g := h.cfg.Processes, h.group
	return p.Alive(h.hello.PID, h.hello.PIDStart) ||
		g.Guard != 0 && p.Alive(g.Guard, g.GuardStart) ||
		g.ID != 0 && p.GroupAlive(g.ID, g.LeaderStart)
}
