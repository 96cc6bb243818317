package explore

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

// act is a kind of choice.
type act uint8

const (
	actDeliver act = iota
	actLock
	actUnlock
	actWake
	actSleepUntil // just before a session, or a quarantine, ends
	actSleepPast
	actOversleep // a holder sleeps until just after its own deadline
	actRestart
	actCut
	actHeal
	actLose
	actDouble
	actCancel
)

// choice is something that can happen in a world.
type choice struct {
	act act
	who int
	m   *node.Message
}

// choices returns all that can happen. The order depends on nothing but the world's
// history, so that a path can be followed again.
func (w *world) choices() []choice {
	cs := w.messageChoices(make([]choice, 0, 16))
	for i := range w.nodes {
		switch p := &w.places[i]; {
		case p.want == holding:
			cs = append(cs, choice{act: actUnlock, who: i})
		case p.want == waiting && w.left.Cancels > 0:
			cs = append(cs, choice{act: actCancel, who: i})
		case p.want == idle && p.left > 0:
			cs = append(cs, choice{act: actLock, who: i})
		}
	}
	if w.left.Wakes > 0 {
		cs = append(cs, choice{act: actWake})
	}
	if w.left.Sleeps > 0 {
		for i := -1; i < w.nodes; i++ {
			if w.sc.Sleepers != nil && !slices.Contains(w.sc.Sleepers, i) {
				continue
			}
			cs = append(cs, choice{act: actSleepUntil, who: i}, choice{act: actSleepPast, who: i})
			if i >= 0 && w.places[i].want == holding && w.places[i].deadline > w.now {
				cs = append(cs, choice{act: actOversleep, who: i})
			}
		}
	}
	for i := range w.nodes {
		if w.sc.Victims != nil && !slices.Contains(w.sc.Victims, i) {
			continue
		}
		if w.left.Restarts > 0 {
			cs = append(cs, choice{act: actRestart, who: i})
		}
		if w.left.Cuts > 0 && w.cut < 0 {
			cs = append(cs, choice{act: actCut, who: i})
		}
	}
	if w.cut >= 0 {
		cs = append(cs, choice{act: actHeal})
	}
	return cs
}

func (w *world) messageChoices(cs []choice) []choice {
	for i, m := range w.flight {
		if slices.ContainsFunc(w.flight[:i], func(o *node.Message) bool { return *o == *m }) {
			continue
		}
		cs = append(cs, choice{act: actDeliver, m: m})
		if w.left.Lost > 0 {
			cs = append(cs, choice{act: actLose, m: m})
		}
		if w.left.Doubled > 0 {
			cs = append(cs, choice{act: actDouble, m: m})
		}
	}
	return cs
}

// do makes a choice happen.
func (w *world) do(c choice) {
	if w.log != nil {
		w.tell("%v  %s", moment(w.now), w.name(c))
	}
	switch p := &w.places[max(c.who, 0)]; c.act {
	case actDeliver:
		w.takeOut(c.m)
		w.deliver(c.m)
	case actLose:
		w.left.Lost--
		w.takeOut(c.m)
	case actDouble:
		w.left.Doubled--
		w.deliver(c.m)
	case actLock:
		w.lock(c.who)
	case actUnlock:
		w.unlock(c.who)
	case actCancel:
		w.left.Cancels--
		w.call(c.who, func(core *node.Node) { core.Cancel(w.now, p.call) })
	case actWake:
		w.left.Wakes--
		w.now = max(w.now, w.nextWake())
		w.tick()
	case actSleepUntil, actSleepPast:
		w.left.Sleeps--
		w.sleep(c.who, c.act == actSleepPast)
	case actOversleep:
		w.left.Sleeps--
		w.rush, w.asleep = true, c.who
		w.runUntil(p.deadline)
		w.rush, w.asleep = false, -1
	case actRestart:
		w.left.Restarts--
		w.start(c.who)
		w.judge()
	case actCut:
		w.left.Cuts--
		w.cut = c.who
	case actHeal:
		w.cut = -1
	}
	w.settle()
}

func (w *world) takeOut(m *node.Message) {
	i := slices.Index(w.flight, m)
	w.flight = slices.Delete(w.flight, i, i+1)
}

func (w *world) lock(i int) {
	p := &w.places[i]
	w.calls++
	p.left--
	p.call, p.want = w.calls, waiting
	w.call(i, func(c *node.Node) {
		c.Lock(w.now, p.call, lockName, node.CallOptions{})
		if _, at := c.Counted(breakage.Key{}, w.now, lockName); at != 0 {
			k, _ := slices.BinarySearch(w.times, at)
			w.times = slices.Insert(w.times, k, at)
		}
	})
}

func (w *world) unlock(i int) {
	p := &w.places[i]
	p.want = idle
	w.call(i, func(c *node.Node) { c.Unlock(w.now, p.call) })
}

// nextWake is when the first node that is awake is due.
func (w *world) nextWake() node.Instant {
	next := node.Instant(math.MaxInt64)
	for i := range w.nodes {
		if i != w.asleep {
			next = min(next, w.places[i].core.Wake())
		}
	}
	return next
}

// tick wakes all nodes that are awake: a driver may do so at any time. Their order does
// not matter, as no message comes in between.
func (w *world) tick() {
	for i := range w.nodes {
		if i != w.asleep {
			w.call(i, func(c *node.Node) { c.Tick(w.now) })
		}
	}
}

// runUntil lets time go on with a good network.
func (w *world) runUntil(end node.Instant) {
	for w.violation == nil {
		at := w.nextWake()
		if at > end {
			break
		}
		w.now = max(w.now, at)
		w.tick()
		w.settle()
	}
	w.now = max(w.now, end)
}

// sleep lets time go on until a member that is awake ends a session, or its quarantine.
// Meanwhile who does nothing, and what is sent among the others arrives at once; what was
// under way stays so. Without such a moment 2T pass.
func (w *world) sleep(who int, past bool) {
	w.rush, w.asleep = true, who
	defer func() { w.rush, w.asleep = false, -1 }()
	for limit := w.now.Add(2 * ttl); w.violation == nil; {
		end, at := w.nextEnd(), w.nextWake()
		if min(end, at) > limit {
			return
		}
		if end <= at && !past {
			w.now = max(w.now, end-1)
			return
		}
		w.now = max(w.now, at)
		w.tick()
		w.settle()
		if end <= at {
			return
		}
	}
}

func (w *world) nextEnd() node.Instant {
	next := node.Instant(math.MaxInt64)
	for i := range w.nodes {
		if i != w.asleep {
			next = min(next, w.places[i].core.Ends(breakage.Key{}))
		}
	}
	return next
}

// endBound is how long all may take to be served once nothing fails any more.
const endBound = 12 * ttl

// goOn ends all faults, delivers what is under way, and lets time go on until everybody
// who waits has had the lock, and has given it back.
func (w *world) goOn() *Violation {
	w.tell("%v  faults end, time goes on", moment(w.now))
	w.cut, w.rush, w.over = -1, true, true
	w.prompt, w.flight = w.flight, nil
	w.settle()
	for end := w.now.Add(endBound); w.violation == nil; {
		over := true
		for i := range w.nodes {
			if w.places[i].want == holding {
				w.tell("    %s gives the lock back", w.names[i])
				w.unlock(i)
				w.settle()
			}
		}
		for i := range w.nodes {
			if w.places[i].want != idle {
				over = false
			}
		}
		if over {
			return w.violation
		}
		if at := w.nextWake(); at > end {
			w.fail(Stuck, "%s", w.stuck())
			return w.violation
		}
		w.now = max(w.now, w.nextWake())
		w.tick()
		w.settle()
	}
	return w.violation
}

func (w *world) stuck() string {
	var who []string
	for i := range w.nodes {
		if w.places[i].want != idle {
			who = append(who, w.names[i])
		}
	}
	return fmt.Sprintf("nothing failed for %d T, and still waiting: %s", int64(endBound/ttl), strings.Join(who, ", "))
}
