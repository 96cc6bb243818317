package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// advance does what is due when a phase is over.
func (r *race) advance() error {
	switch r.phase {
	case phaseFirst:
		return fmt.Errorf("demo: no process had the lock within %v of the start; the quarantine lasts %v", firstLockTime, quarantine())
	case phaseWhole:
		r.enterPhase(phaseWithout)
		return r.killRoot()
	case phaseWithout:
		r.enterPhase(phaseAgain)
		return r.restart()
	case phaseAgain:
		r.stop()
	case phaseStop:
		r.fleet.each(func(p *proc) {
			r.trouble = append(r.trouble, fmt.Sprintf("%s, process %d, did not end within %v of the order to stop", p.name, p.pid, stopTime))
		})
		r.phase = phaseOver // whoever is left is killed then
	case phaseOver:
	}
	return nil
}

// enterPhase begins one of the phases of a third of the time. Their ends are
// counted from the beginning, so that no delay adds up.
func (r *race) enterPhase(p phase) {
	r.phase = p
	thirds := time.Duration(p-phaseWhole) + 1
	r.timer.Reset(r.begun + r.cfg.For*thirds/3 - r.now())
}

// killRoot kills the process that is the root of the lock's tree, whatever it is
// doing.
func (r *race) killRoot() error {
	r.fleet.each(func(p *proc) {
		if p.name == r.root {
			r.victim = p
		}
	})
	if r.victim == nil {
		return fmt.Errorf("demo: %q is the root of the tree, but none of the processes", r.root)
	}
	r.victim.killed = true
	if err := r.victim.kill(); err != nil {
		return fmt.Errorf("demo: kill %s, process %d: %w", r.root, r.victim.pid, err)
	}
	r.killedAt = r.now()
	r.screen.note(r.elapsed(), "SIGKILL to %s (pid %d), the root: what it was granted counts for up to %v more, then the others go on around it",
		r.root, r.victim.pid, quarantine())
	return nil
}

// restart starts the killed process again, under its name and address.
func (r *race) restart() error {
	if !r.victim.gone {
		return fmt.Errorf("demo: %s, process %d, was killed and is not dead yet: a second one under its name must not start", r.root, r.victim.pid)
	}
	p, err := r.fleet.spawn(r.root)
	if err != nil {
		return err
	}
	r.returns++
	r.restarted, r.restartedAt = p, r.now()
	p.tell(order{Kind: orderGo})
	r.screen.note(r.elapsed(), "restarted %s (pid %d), which remembers nothing: it may ask at once, but grants nothing for %v (quarantine)",
		p.name, p.pid, quarantine())
	return nil
}

// stop has everybody finish.
func (r *race) stop() {
	r.phase = phaseStop
	r.ended = r.now()
	r.timer.Reset(stopTime)
	r.again.Stop()
	if r.restarted.gone {
		r.trouble = append(r.trouble, fmt.Sprintf("%s was restarted and is not back at the end: %s", r.root, r.restarted.failure))
	}
	r.fleet.each(func(p *proc) { p.tell(order{Kind: orderStop}) })
	r.screen.note(r.elapsed(), "time is over: all finish what they do")
}

// handle is the judge's work on one event.
func (r *race) handle(e event) error {
	p := e.proc
	if e.gone {
		return r.handleGone(e)
	}
	switch e.report.Kind {
	case kindEnter:
		if err := r.handleEnter(e); err != nil {
			return err
		}
		p.tell(order{Kind: orderEntered, Seq: e.report.Seq})
	case kindRenew:
		r.judge.renew(p.number, e.report.Seq, e.report.Deadline)
	case kindLeave:
		if err := r.judge.leave(p.number, e.report.Seq, e.report.Deadline, r.now()); err != nil {
			return unfit(p, err)
		}
		p.tell(order{Kind: orderLeft, Seq: e.report.Seq})
	}
	return nil
}

func (r *race) handleEnter(e event) error {
	p := e.proc
	overlaps := r.judge.overlaps
	err := r.judge.enter(hold{
		Process: p.number, Seq: e.report.Seq, Call: e.report.Call,
		Had: e.report.Had, Deadline: e.report.Deadline, Entered: e.at,
	})
	if err != nil {
		return unfit(p, err)
	}
	if r.phase == phaseFirst {
		r.begin(e)
	}
	p.acquired++
	r.screen.holder(p.name)
	if overlaps == 0 && r.judge.overlaps > 0 {
		r.screen.note(r.elapsed(), "OVERLAP: %s has the lock, and so has another", p.name)
	}
	if r.killedAt != 0 && e.report.Had > r.killedAt && p != r.victim {
		r.screen.note(r.elapsed(), "%s is the first to have the lock after the kill, %.1f ms later", p.name, milliseconds(e.at-r.killedAt))
		r.killedAt = 0
	}
	if p == r.restarted && p.acquired == 1 {
		r.screen.note(r.elapsed(), "%s has the lock again, %.1f ms after its restart", p.name, milliseconds(e.at-r.restartedAt))
	}
	return nil
}

// begin starts the clock: the time of a demo counts from the first lock.
func (r *race) begin(e event) {
	r.begun = e.at
	r.show.Reset(r.screen.each()) // so that its lines are of whole seconds
	r.fleet.each(func(p *proc) { p.base = p.sent })
	r.screen.note(0, "%s is the first to have the lock", e.proc.name)
	r.enterPhase(phaseWhole)
}

// handleGone tells an end that was wanted from one that was not.
func (r *race) handleGone(e event) error {
	p := e.proc
	held := r.judge.death(p.number, e.at)
	switch {
	case p.killed:
		if held {
			r.screen.note(r.elapsed(), "%s died inside: the others have to wait until its lease is over", p.name)
		}
	case p == r.restarted && p.noPort && r.phase == phaseAgain:
		if r.returns == maxReturns {
			return errors.Join(p.died(e.err), fmt.Errorf("demo: its port was not free in %d tries; run the demo again", maxReturns))
		}
		r.again.Reset(returnInterval)
	case !p.bye:
		return p.died(e.err)
	}
	if r.phase == phaseStop && r.fleet.alive == 0 {
		r.phase = phaseOver
	}
	return nil
}

// unfit ends the demo: a judge that is not told the truth can say nothing.
func unfit(p *proc, err error) error {
	return fmt.Errorf("demo: no verdict, %s (pid %d) does not keep to the rules: %w", p.name, p.pid, err)
}

// inside names who is inside now.
func (r *race) inside() string {
	var names []string
	for _, number := range r.judge.holders() {
		names = append(names, r.fleet.procs[number].name)
	}
	return strings.Join(names, "+")
}
