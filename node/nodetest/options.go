package nodetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/treequorum/dmutex/node"
	"github.com/treequorum/dmutex/node/internal/breakage"
)

// Options is what a seed decides before the run. Draw makes them; a test may
// change them after that, and the rest of the run stays a function of the seed.
// Times are true time.
type Options struct {
	Seed       uint64
	Aim        string // what the options were changed for, to replay them
	Members    int    // 1 to 15
	Clients    int    // 0 to 3
	Locks      int
	TTL        node.Duration // T
	Drift      int64         // d in parts per million
	NoRotation bool
	TreeOnly   bool
	Floors     int           // how many fencing tokens a member remembers one by one; 0: the default
	Faulty     node.Duration // length of the first phase
	Half       HalfHealed    // what stays cut at first when the faults end
	Net        NetOptions
	Calls      CallOptions
	Faults     FaultOptions
	Broken     breakage.Set
}

// HalfHealed is what stays cut off or down for a while when the faults end. It must
// not keep the others from their locks.
type HalfHealed uint8

// The ways in which one node stays cut off.
const (
	HealAll  HalfHealed = iota // nothing stays cut
	KeepHalf                   // it reaches fewer than a majority, and only these reach it
	KeepDeaf                   // it does not hear fewer than a majority, which hear it
	KeepDumb                   // fewer than a majority do not hear it, which it hears
	KeepDown                   // as many members as can be without for a majority stay down
)

// NetOptions describe the network between faults.
type NetOptions struct {
	Delay     node.Duration // least one-way delay
	Jitter    node.Duration // up to so much is added to each
	Loss      float64       // share of messages lost, and so on
	Duplicate float64
	Late      float64       // share of messages that are late by up to MostLate
	MostLate  node.Duration // so they are overtaken
}

// CallOptions describe those who want locks.
type CallOptions struct {
	Slots    int           // callers at each node that may wait or hold at one time
	Think    node.Duration // mean time between two calls of one caller
	Hold     node.Duration // most holds are shorter than this
	LongHold float64       // share of holds of up to ten T
	Try      float64       // share of TryLock
	Patience float64       // share of callers that give up within four T
	Token    float64       // share of holders that want a fencing token
	Spread   float64       // share of holders that ask all members at once
}

// FaultOptions say which faults come, and how often.
type FaultOptions struct {
	Every   node.Duration // mean time from one to the next; 0: none
	Lasts   node.Duration // mean time from a fault to its end
	Kinds   []FaultKind
	Walls   bool          // wall clocks are days off and jump
	Extreme bool          // clocks run at the very edge of the bound
	Lazy    node.Duration // drivers tick up to so much late
}

// Draw decides the options of a seed. Faults are drawn as a swarm: each seed has
// only some kinds, which reaches deeper than a bit of everything in each.
func Draw(seed uint64) Options {
	r := rand.New(rand.NewPCG(seed, 1))
	o := Options{
		Seed:       seed,
		Members:    pick(r, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7, 7, 7, 7, 8, 9, 10, 11, 12, 13, 14, 15),
		Clients:    r.IntN(4),
		Locks:      pick(r, 1, 1, 1, 2, 3),
		TTL:        pick[node.Duration](r, 200, 1000, 3000, 10_000, 30_000) * node.Millisecond,
		Drift:      pick(r, int64(0), 10_000, 50_000, 100_000, 100_000, 200_000),
		NoRotation: chance(r, 0.3),
		TreeOnly:   chance(r, 0.15),
		Floors:     pick(r, 0, 0, 0, 1, 2),
	}
	o.Faulty = o.TTL * node.Duration(pick(r, 15, 25, 40, 60))
	if o.Members+o.Clients > 9 {
		o.Faulty = min(o.Faulty, 25*o.TTL)
	}
	if o.Members >= 3 && chance(r, 0.4) {
		o.Half = pick(r, KeepHalf, KeepDeaf, KeepDumb, KeepDown)
	}
	o.Net = drawNet(r, o.TTL)
	o.Calls = drawCalls(r, o.TTL)
	o.Faults = drawFaults(r, o.TTL)
	return o
}

func drawNet(r *rand.Rand, ttl node.Duration) NetOptions {
	n := NetOptions{
		Delay:  ttl / pick[node.Duration](r, 10_000, 1000, 200, 60),
		Jitter: ttl / pick[node.Duration](r, 10_000, 1000, 200, 60, 20),
	}
	if chance(r, 0.5) {
		n.Loss = pick(r, 0.01, 0.05, 0.1, 0.3)
	}
	if chance(r, 0.5) {
		n.Duplicate = pick(r, 0.01, 0.1, 0.2)
	}
	if chance(r, 0.5) {
		n.Late = pick(r, 0.01, 0.05, 0.2)
		n.MostLate = ttl / 8 * pick[node.Duration](r, 1, 4, 8, 16, 32)
	}
	return n
}

func drawCalls(r *rand.Rand, ttl node.Duration) CallOptions {
	return CallOptions{
		Slots:    pick(r, 1, 1, 2, 3),
		Think:    ttl / 16 * pick[node.Duration](r, 1, 4, 16, 64),
		Hold:     ttl / 64 * pick[node.Duration](r, 1, 4, 16, 64, 192),
		LongHold: pick(r, 0, 0.02, 0.1, 0.3),
		Try:      pick(r, 0, 0.1, 0.5),
		Patience: pick(r, 0, 0.1, 0.5),
		Token:    pick(r, 0, 0.3, 1),
		Spread:   pick(r, 0, 0.2),
	}
}

func drawFaults(r *rand.Rand, ttl node.Duration) FaultOptions {
	f := FaultOptions{
		Every:   ttl / 8 * pick[node.Duration](r, 1, 2, 4, 8, 16, 32),
		Lasts:   ttl / 8 * pick[node.Duration](r, 1, 4, 8, 16, 32),
		Walls:   chance(r, 0.4),
		Extreme: chance(r, 0.5),
	}
	if chance(r, 0.5) {
		f.Lazy = ttl / pick[node.Duration](r, 1000, 100, 20)
	}
	share := pick(r, 0.15, 0.3, 0.6, 1)
	for k := FaultKind(1); k < endOfFaultKinds; k++ {
		if chance(r, share) {
			f.Kinds = append(f.Kinds, k)
		}
	}
	return f
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// upTo returns a time from 0 to d.
func upTo(r *rand.Rand, d node.Duration) node.Duration {
	return node.Duration(r.Int64N(int64(d) + 1))
}

// around returns an exponentially distributed time of mean d, at most 8 d.
func around(r *rand.Rand, d node.Duration) node.Duration {
	return node.Duration(min(r.ExpFloat64(), 8) * float64(d))
}

// String shows the options on one line.
func (o Options) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d members, %d clients, %d locks, T %dms, d %.2f%%", o.Seed, o.Members, o.Clients,
		o.Locks, o.TTL/node.Millisecond, float64(o.Drift)/10_000)
	for _, flag := range []struct {
		name string
		on   bool
	}{
		{"no rotation", o.NoRotation},
		{"tree only", o.TreeOnly},
		{"walls off", o.Faults.Walls},
		{"extreme clocks", o.Faults.Extreme},
	} {
		if flag.on {
			b.WriteString(", " + flag.name)
		}
	}
	if o.Half != HealAll {
		fmt.Fprintf(&b, ", half healed %d", o.Half)
	}
	t := float64(o.TTL)
	fmt.Fprintf(&b, "; %.0fT faulty, a fault each %.2fT for %.2fT of %v", float64(o.Faulty)/t, float64(o.Faults.Every)/t,
		float64(o.Faults.Lasts)/t, o.Faults.Kinds)
	fmt.Fprintf(&b, "; delay %.4fT+%.4fT loss %g dup %g late %g by %.2fT", float64(o.Net.Delay)/t, float64(o.Net.Jitter)/t,
		o.Net.Loss, o.Net.Duplicate, o.Net.Late, float64(o.Net.MostLate)/t)
	fmt.Fprintf(&b, "; %d callers think %.2fT hold %.2fT long %g try %g give up %g token %g spread %g", o.Calls.Slots,
		float64(o.Calls.Think)/t, float64(o.Calls.Hold)/t, o.Calls.LongHold, o.Calls.Try, o.Calls.Patience, o.Calls.Token,
		o.Calls.Spread)
	return b.String()
}
