package gossip

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Events hears of changes. The calls come one at a time from one goroutine that
// belongs to the gossip and holds no lock; while one is under way no further ones
// come, so it must not block for long and must not call Close. Changes that undo
// each other before they could be told are left out. This node itself is never
// reported.
type Events interface {
	// PeerAlive says that a member is up, as far as gossip knows.
	PeerAlive(name string)
	// PeerDead says that a member has left, or does not answer anybody.
	PeerDead(name string)
}

// State is what gossip thinks of a member.
type State uint8

// The states.
const (
	StateDead    State = iota // not heard of yet, gone, or given up
	StateSuspect              // counted as alive, but does not answer this node's packets
	StateAlive
)

// String names the state as status pages show it.
func (s State) String() string {
	switch s {
	case StateDead:
		return "dead"
	case StateSuspect:
		return "suspect"
	case StateAlive:
		return "alive"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Member is one member as this node sees it.
type Member struct {
	Name  string
	Addr  string // as on the list of peers
	State State
}

// entry is what is known of one peer.
type entry struct {
	alive  bool
	told   bool // what Events was told last
	queued bool // name is in view.changed

	unanswered time.Time // when this node's first ping without an answer was sent; zero: none
}

// view is the set of members that are up, kept from memberlist's callbacks. It
// takes the place of memberlist's own list, which cannot be read from within
// callbacks and hands out structures that it goes on writing to.
//
// The callbacks come under memberlist's node lock: they only take the view's own
// lock, for moments, and never call out.
type view struct {
	self     string
	table    *table
	log      *logWriter
	patience time.Duration // an answer later than this makes a member suspect; set before use

	mu      sync.Mutex // leaf
	entries map[string]*entry
	changed []string // in the order of change; each name at most once
	closed  bool
	wake    chan struct{}
}

var (
	_ memberlist.EventDelegate    = (*view)(nil)
	_ memberlist.AliveDelegate    = (*view)(nil)
	_ memberlist.ConflictDelegate = (*view)(nil)
)

func newView(self string, t *table, logTo *logWriter) *view {
	v := &view{
		self: self, table: t, log: logTo,
		entries: make(map[string]*entry, len(t.list)), wake: make(chan struct{}, 1),
	}
	for _, p := range t.list {
		v.entries[p.Name] = &entry{}
	}
	return v
}

// NotifyAlive refuses names that are not on the list.
func (v *view) NotifyAlive(n *memberlist.Node) error {
	if !v.table.listed(n.Name) {
		return fmt.Errorf("%w: %.80q", errNotListed, n.Name)
	}
	return nil
}

// NotifyJoin takes note of a member that is up.
func (v *view) NotifyJoin(n *memberlist.Node) {
	v.table.appeared(n.Name)
	v.set(n.Name, true)
}

// NotifyLeave takes note of a member that left or was given up.
func (v *view) NotifyLeave(n *memberlist.Node) { v.set(n.Name, false) }

// NotifyUpdate has nothing to do: nodes carry no meta data.
func (v *view) NotifyUpdate(*memberlist.Node) {}

// NotifyConflict logs that a name was claimed by a program that advertises an
// address of its own, which no node of ours does.
func (v *view) NotifyConflict(existing, other *memberlist.Node) {
	v.log.warnf("gossip: two processes claim the name %.80q (at %v and %v); stop the one that does not belong to the cluster",
		existing.Name, existing.Addr, other.Addr)
}

// pinged takes note that this node sent a ping to a member.
func (v *view) pinged(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.entries[name]; ok && e.unanswered.IsZero() {
		e.unanswered = time.Now()
	}
}

// answered takes note that a member answered one of them.
func (v *view) answered(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.entries[name]; ok {
		e.unanswered = time.Time{}
	}
}

func (v *view) set(name string, alive bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.entries[name]
	if !ok || v.closed {
		return
	}
	e.alive = alive
	e.unanswered = time.Time{}
	if name == v.self || e.queued {
		return
	}
	e.queued = true
	v.changed = append(v.changed, name) // queued keeps it as short as the list of peers
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest change that has not been told.
func (v *view) next() (name string, alive, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.changed) > 0 && !v.closed {
		name := v.changed[0]
		v.changed = slices.Delete(v.changed, 0, 1)
		e := v.entries[name]
		e.queued = false
		if e.alive == e.told {
			continue
		}
		e.told = e.alive
		return name, e.alive, true
	}
	return "", false, false
}

// deliver calls ev for every change until done.
func (v *view) deliver(ev Events, done <-chan struct{}) {
	for {
		select {
		case <-v.wake:
		case <-done:
			return
		}
		for {
			name, alive, ok := v.next()
			if !ok {
				break
			}
			if alive {
				ev.PeerAlive(name)
			} else {
				ev.PeerDead(name)
			}
		}
	}
}

// close ends the delivery of changes.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}

// missing lists the peers other than this node that are not in the view.
func (v *view) missing() []*peer {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []*peer
	for _, p := range v.table.list {
		if p.Name != v.self && !v.entries[p.Name].alive {
			out = append(out, p)
		}
	}
	return out
}

func (v *view) alive(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.entries[name].alive
}

// members returns a copy, sorted by name.
func (v *view) members() []Member {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Member, 0, len(v.table.list))
	for _, p := range v.table.list {
		e, m := v.entries[p.Name], Member{Name: p.Name, Addr: p.Addr, State: StateAlive}
		switch {
		case !e.alive:
			m.State = StateDead
		case !e.unanswered.IsZero() && now.Sub(e.unanswered) > v.patience:
			m.State = StateSuspect
		}
		out = append(out, m)
	}
	return out
}
