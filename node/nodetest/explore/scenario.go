// Package explore searches small clusters of protocol cores exhaustively: every order in
// which messages arrive, a few of them lost or doubled, time that moves to the next
// moment at which a node has something to do, a node that sleeps until a session is
// over, a member that restarts with nothing in memory, a node that is cut off. A
// simulator tries what chance gives it; this package tries everything, to a depth.
//
// # The search
//
// A [Scenario] says how many members there are, who asks, and how many faults of each
// kind may come. A state is all cores and all messages under way. The search goes
// through the states breadth first, so that the first failure has the shortest trace,
// and visits each state once: two are the same when their hashes are. A state is not
// kept but made again from the choices that lead to it.
//
// The hash goes over all fields of a core by reflection, so that none can be forgotten;
// those that are left out, and those that are compared otherwise, stand in a table
// with the reason ([hashRules]). Instants count relative to the present. TestHashIsHonest
// holds the futures of states against each other that were taken for the same.
//
// # What is checked
//
// In every state: no two nodes hold at one instant, no two count a grant of one member,
// tokens rise, nothing panics. From each state with nothing under way, and from a part
// of the others, faults stop and time goes on, with the same checks: whoever waits must
// get the lock, and gives it back at once.
//
// # What is left out
//
// All clocks run alike. KeepAlives and their answers arrive at once unless the scenario
// says otherwise; while a node sleeps everything that is sent meanwhile among the others
// arrives at once too. The simulator of node/nodetest has all of this.
//
//	scenario.go  what is searched
//	search.go    Search: breadth first
//	world.go     a state and what can happen in it
//	time.go      how time goes on
//	hash.go      when two states are the same
//	trace.go     a failure for people
package explore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

// Scenario is what is searched. The numbers of events are bounds for one path.
type Scenario struct {
	Name       string
	Members    int   // every lock has the same root: there is no rotation
	Clients    int   // nodes after the members that are none
	Requesters []int // by number
	Locks      int   // how often each of them asks
	Depth      int   // how many things happen on one path, without -depth

	TreeOnly   bool
	Tokens     bool // every holder asks for one
	KeepAlives bool // KeepAlives and answers are delivered in every order too
	WallBack   bool // the wall clock of a member that restarts is a day behind

	Wakes    int // time goes on to the next moment at which some node is due
	Sleeps   int // a node, or nobody, sleeps until just before, or just after, a session or quarantine ends
	Lost     int // messages
	Doubled  int // messages
	Restarts int // with nothing in memory
	Cuts     int // of one node from all others, for as long as it likes
	Cancels  int // callers that give up

	Sleepers []int              // who may sleep, -1: nobody does while time goes on; nil: all
	Victims  []int              // who may restart or be cut off; nil: all
	Always   []node.MessageType // messages of these types are always lost, but not after the faults

	Fault breakage.Set
	Skip  Kind // a check that is not made, to see that it is this one that fails
}

// Kind is a check that can fail.
type Kind string

// The checks.
const (
	TwoHolders Kind = "two holders"
	TwoGrants  Kind = "two grants"
	Revived    Kind = "revived"
	Tokens     Kind = "tokens"
	Stuck      Kind = "stuck"
	Panic      Kind = "panic"
)

// Violation is a promise that was not kept.
type Violation struct {
	Kind Kind
	Text string
}

// Result is what a search found.
type Result struct {
	States      int // different ones
	Transitions int
	Endings     int // states from which time went on until all were served
	Depth       int // that was reached
	Closed      bool
	Queue       int // most states that waited to be looked at
	Flight      int // most messages under way at once
	Violation   *Violation
	Path        Path // to the violation
}

// String is one line.
func (r *Result) String() string {
	closed := ""
	if r.Closed {
		closed = " (all there are)"
	}
	return fmt.Sprintf("%d states, %d transitions, %d endings, depth %d%s, largest queue %d states, most messages %d",
		r.States, r.Transitions, r.Endings, r.Depth, closed, r.Queue, r.Flight)
}

// Path is the numbers of the choices made, one after the other.
type Path []uint8

// String is the form of the flag -path.
func (p Path) String() string {
	parts := make([]string, len(p))
	for i, c := range p {
		parts[i] = strconv.Itoa(int(c))
	}
	return strings.Join(parts, ".")
}

// ParsePath reads what String wrote.
func ParsePath(text string) (Path, error) {
	var p Path
	for part := range strings.SplitSeq(text, ".") {
		c, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("explore: path %q: %w", text, err)
		}
		p = append(p, uint8(c))
	}
	return p, nil
}

// Scenarios are what is searched, with depths for a few seconds in all.
func Scenarios() []Scenario {
	members, clients := []int{0, 2}, []int{2, 3}
	// What is only told, or asked again, is not waited for.
	talk := []node.MessageType{node.MsgQueued, node.MsgValidate, node.MsgValidateReply}
	return []Scenario{
		// To the end: there are no other orders.
		{Name: "order2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Depth: 30},
		{Name: "order3", Members: 3, Requesters: members, Locks: 1, Depth: 30},
		{Name: "orderTree3", Members: 3, Requesters: members, Locks: 1, TreeOnly: true, Depth: 30},
		// Lost and doubled messages, callers that give up, callers that come again.
		{Name: "faults2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Lost: 1, Doubled: 1, Cancels: 1, Depth: 6},
		{Name: "faults3", Members: 3, Requesters: members, Locks: 1, Lost: 1, Doubled: 1, Cancels: 1, Depth: 7},
		{Name: "again2", Members: 2, Requesters: []int{0, 1}, Locks: 2, Depth: 8},
		{Name: "again3", Members: 3, Requesters: members, Locks: 2, Depth: 11},
		{Name: "clients2", Members: 2, Clients: 2, Requesters: clients, Locks: 1, Lost: 1, Doubled: 1, Depth: 6},
		{Name: "third1", Members: 1, Clients: 3, Requesters: []int{1, 2, 3}, Locks: 1, Doubled: 1, Always: talk, Depth: 9},
		// Time, sleep, restarts, cuts.
		{Name: "wakes2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Wakes: 3, Lost: 1, Depth: 6},
		{Name: "wakes3", Members: 3, Requesters: members, Locks: 1, Wakes: 3, Lost: 1, Depth: 6},
		{Name: "sleep2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Wakes: 1, Sleeps: 2, Depth: 4},
		{Name: "sleep3", Members: 3, Requesters: members, Locks: 1, Wakes: 1, Sleeps: 2, Depth: 4},
		{Name: "restart2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Wakes: 1, Sleeps: 1, Restarts: 1, Depth: 4},
		{Name: "restart3", Members: 3, Requesters: members, Locks: 1, Wakes: 1, Sleeps: 1, Restarts: 1, Depth: 4},
		{Name: "cut2", Members: 2, Requesters: []int{0, 1}, Locks: 1, Wakes: 1, Sleeps: 1, Cuts: 1, Depth: 4},
		{Name: "cut3", Members: 3, Requesters: members, Locks: 1, Wakes: 1, Sleeps: 1, Cuts: 1, Depth: 4},
		{Name: "tokens3", Members: 3, Requesters: members, Locks: 1, Tokens: true, WallBack: true, Wakes: 1, Sleeps: 1, Restarts: 1, Depth: 4},
		// The same with an aim, and deeper.
		{
			Name: "quarantine3", Members: 3, Requesters: members, Locks: 1, Wakes: 1, Sleeps: 1, Restarts: 1,
			Sleepers: []int{0}, Victims: []int{1}, Always: talk, Depth: 5,
		},
		{
			Name: "floors3", Members: 3, Requesters: members, Locks: 1, Tokens: true, WallBack: true, Wakes: 1, Sleeps: 1, Restarts: 1,
			Sleepers: []int{-1}, Victims: []int{1}, Always: talk, Depth: 5,
		},
		{
			Name: "former1", Members: 1, Clients: 2, Requesters: []int{1, 2}, Locks: 2, Sleeps: 1, Restarts: 1,
			Sleepers: []int{-1}, Victims: []int{0}, Always: talk, Depth: 8,
		},
		{
			Name: "waits1", Members: 1, Clients: 2, Requesters: []int{1, 2}, Locks: 1, Wakes: 1, Sleeps: 1, Restarts: 1,
			Sleepers: []int{-1}, Victims: []int{0}, Always: talk, Depth: 7,
		},
		// KeepAlives and their answers in every order.
		{
			Name: "late1", Members: 1, Clients: 1, Requesters: []int{1}, Locks: 1, KeepAlives: true, Wakes: 3, Sleeps: 1,
			Sleepers: []int{1}, Depth: 8,
		},
		{
			Name: "late2", Members: 2, Requesters: []int{0, 1}, Locks: 1, KeepAlives: true, Wakes: 2, Sleeps: 1,
			Sleepers: []int{0}, Always: talk, Depth: 5,
		},
		{Name: "late3", Members: 3, Requesters: members, Locks: 1, KeepAlives: true, Wakes: 1, Cuts: 1, Depth: 6},
	}
}
