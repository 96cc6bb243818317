package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// joiner keeps asking peers that are not in the view. memberlist never does: a
// node whose peers start after it, or that was once given up by all, would stay
// alone for ever.
type joiner struct {
	view     *view
	log      *logWriter
	join     func(alias string) error
	interval time.Duration
	random   *rand.Rand // of the joiner's goroutine only
	last     string     // failure logged last
	lastAt   time.Time
}

// run joins until ctx ends. The first round is at once.
func (j *joiner) run(ctx context.Context) {
	for {
		j.round(ctx)
		timer := time.NewTimer(j.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause is the interval give or take a quarter.
func (j *joiner) pause() time.Duration {
	quarter := int64(j.interval / 4)
	return j.interval - time.Duration(quarter) + time.Duration(j.random.Int64N(2*quarter+1))
}

// round asks every missing peer once, one after the other, in random order: the
// first ones may take long to fail, and nobody should always come last.
func (j *joiner) round(ctx context.Context) {
	missing := j.view.missing()
	j.random.Shuffle(len(missing), func(a, b int) { missing[a], missing[b] = missing[b], missing[a] })
	failed, first := 0, error(nil)
	for _, p := range missing {
		if ctx.Err() != nil {
			return
		}
		if j.view.alive(p.Name) { // another peer of this round told us of it
			continue
		}
		if err := j.join(joinAlias(p.index)); err != nil {
			failed++
			if first == nil {
				first = fmt.Errorf("%q at %s: %w", p.Name, p.Addr, err)
			}
		}
	}
	if ctx.Err() == nil {
		j.report(failed, first)
	}
}

// report logs a round that failed for somebody, unless it looks like the one
// before and that was a short while ago.
func (j *joiner) report(failed int, first error) {
	text := fmt.Sprintf("gossip: %d peers not reached, trying again in about %v", failed, j.interval)
	if failed == 0 || text == j.last && time.Since(j.lastAt) < time.Minute {
		return
	}
	j.last, j.lastAt = text, time.Now()
	j.log.debugf("%s; %v", text, first)
}
