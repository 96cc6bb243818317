package node

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// trace runs one cluster through a fixed course of locks, losses and crashes, and hashes
// every message and event in its order.
func trace(t *testing.T, seed uint64) (sum uint64, messages, events int) {
	t.Helper()
	h := fnv.New64a()
	rng := rand.New(rand.NewPCG(seed, 2))
	c := newCluster(t, 5, func(cfg *Config) { cfg.NoRotation = false })
	c.filter = func(m *Message) verdict {
		messages++
		fmt.Fprintf(h, "%+v\n", *m)
		if rng.IntN(20) == 0 {
			return drop
		}
		return pass
	}
	c.run(3 * oneT)
	for range 25 {
		name := c.members[rng.IntN(len(c.members))]
		switch {
		case c.nodes[name] == nil:
			c.start(name)
		case rng.IntN(30) == 0:
			c.crash(name)
		default:
			// Many locks, so that an order that comes from a map would show.
			for i := range 5 {
				c.lockWith(name, fmt.Sprint("lock", rng.IntN(20)), CallOptions{Watch: i == 0})
			}
			c.nodes[name].Cancel(c.clock(name), c.calls)
			c.collect(name)
		}
		c.run(Duration(rng.Int64N(int64(oneT / 5))))
	}
	for _, name := range c.names {
		events += len(c.events[name])
		fmt.Fprintf(h, "%+v\n", c.events[name])
	}
	return h.Sum64(), messages, events
}

// "The same inputs give the same bytes out."
func TestSameCallsGiveTheSameOutput(t *testing.T) {
	var sums []uint64
	for seed := range uint64(2) {
		first, messages, events := trace(t, seed)
		sums = append(sums, first)
		if messages < 1000 || events < 100 {
			t.Errorf("seed %d: only %d messages and %d events: too few to tell", seed, messages, events)
		}
		if again, _, _ := trace(t, seed); again != first {
			t.Fatalf("seed %d: the same calls gave another output", seed)
		}
	}
	if sums[0] == sums[1] {
		t.Error("other calls gave the same output: the comparison compares nothing")
	}
}
