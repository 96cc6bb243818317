package nodetest

import "github.com/treequorum/dmutex/node"

// moment is true time, in nanoseconds since the start of the run.
type moment int64

// never is later than everything that happens.
const never = moment(1 << 62)

func (m moment) add(d node.Duration) moment { return m + moment(d) }

func (m moment) sub(o moment) node.Duration { return node.Duration(m - o) }

const million = 1_000_000

// clock is the clock of one machine. It runs while the process is paused.
type clock struct {
	base  moment       // since when it has run at this rate
	local node.Instant // what it showed then
	ppm   int64        // how much faster than true time, in parts per million
}

// read returns what the clock shows at t, which is not before base.
func (c *clock) read(t moment) node.Instant {
	span := int64(t - c.base)
	return c.local.Add(node.Duration(span + span*c.ppm/million))
}

// when returns the first moment at which the clock shows at or later; base when
// it did so all along.
func (c *clock) when(at node.Instant) moment {
	if at <= c.local {
		return c.base
	}
	span := int64(at - c.local)
	t := c.base + moment(span/(million+c.ppm)*million+span%(million+c.ppm)*million/(million+c.ppm))
	for t > c.base && c.read(t-1) >= at {
		t--
	}
	for c.read(t) < at {
		t++
	}
	return t
}

// setRate makes the clock run at another rate from t on.
func (c *clock) setRate(t moment, ppm int64) {
	c.local, c.base, c.ppm = c.read(t), t, ppm
}
