package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treequorum/dmutex/node/internal/breakage"
	"github.com/treequorum/dmutex/quorum"
)

// ProtocolVersion is part of the fingerprint: nodes of different versions refuse
// each other.
const ProtocolVersion = 1

// Limits bound what one node keeps. Over a limit the one who asks gets an
// explicit refusal; the others go on.
type Limits struct {
	Queue   int // waiting requests of one lock at a member
	Locks   int // locks with state at a member
	Clients int // that a member serves at one time; members come on top
	Floors  int // fencing tokens that a member remembers one by one
	Calls   int // callers that wait or hold at this node
}

// DefaultLimits returns the limits that a zero field of Limits takes.
func DefaultLimits() Limits {
	return Limits{Queue: 4096, Locks: 1_000_000, Clients: 10_000, Floors: 100_000, Calls: 100_000}
}

// Config sets up a Node. All but Name, Incarnation, Seed, Standalone and Limits
// must be equal in a cluster; the fingerprint sees to it.
type Config struct {
	Name        string
	Members     []string // all members, in any order; a node whose name is not among them is a client
	Cluster     string
	LeaseTTL    Duration // T
	Drift       int64    // d in parts per million: how far any clock's rate may be off
	NoRotation  bool     // all locks have the same root
	TreeOnly    bool     // no votes, no majority fallback
	Standalone  bool     // a single member that serves only its own process: no quarantine
	Incarnation Incarnation
	Seed        uint64 // for the random part of a further incarnation
	Limits      Limits // zero fields take the default

	// Breakage takes rules out, for tests of the checkers. Only packages below node
	// can make one that is not zero.
	Breakage breakage.Set
}

// maxDrift is d = 20 % in parts per million.
const maxDrift = 200_000

func (c *Config) validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("node: no name"))
	}
	if len(c.Members) < 1 || len(c.Members) > quorum.MaxMembers {
		errs = append(errs, fmt.Errorf("node: %d members: 1 to %d are possible", len(c.Members), quorum.MaxMembers))
	}
	sorted := slices.Clone(c.Members)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(c.Members) {
		errs = append(errs, errors.New("node: a member is listed twice"))
	}
	if c.LeaseTTL < Millisecond || c.LeaseTTL > 1000*Second {
		errs = append(errs, fmt.Errorf("node: lease TTL of %d ns is out of range", int64(c.LeaseTTL)))
	}
	if c.Drift < 0 || c.Drift > maxDrift {
		errs = append(errs, fmt.Errorf("node: drift of %d ppm: 0 to %d are possible", c.Drift, maxDrift))
	}
	if c.Incarnation.IsZero() {
		errs = append(errs, errors.New("node: no incarnation"))
	}
	if c.Standalone && (len(c.Members) != 1 || c.Members[0] != c.Name) {
		errs = append(errs, errors.New("node: a standalone node is its only member"))
	}
	return errors.Join(errs...)
}

func (l Limits) orDefault() Limits {
	def := DefaultLimits()
	pick := func(v, d int) int {
		if v <= 0 {
			return d
		}
		return v
	}
	return Limits{
		Queue: pick(l.Queue, def.Queue), Locks: pick(l.Locks, def.Locks), Clients: pick(l.Clients, def.Clients),
		Floors: pick(l.Floors, def.Floors), Calls: pick(l.Calls, def.Calls),
	}
}

// fingerprint hashes all that must be equal in a cluster (64-bit FNV-1a). Each
// text goes in with its length, so that no two lists read alike.
func (c *Config) fingerprint(sorted []string) uint64 {
	h := uint64(14695981039346656037)
	number := func(v uint64) {
		for range 8 {
			h = (h ^ v&0xff) * 1099511628211
			v >>= 8
		}
	}
	text := func(s string) {
		number(uint64(len(s)))
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	flag := func(b bool) {
		if b {
			number(1)
		} else {
			number(0)
		}
	}
	number(ProtocolVersion)
	text(c.Cluster)
	number(uint64(len(sorted)))
	for _, name := range sorted {
		text(name)
	}
	number(uint64(c.LeaseTTL))
	number(uint64(c.Drift))
	flag(c.NoRotation)
	flag(c.TreeOnly)
	return h
}
