package dmutex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treequorum/dmutex/node"
)

// A LongHold has the grants of a majority two round trips after it has the lock,
// also while everybody else waits: its deadline is then T(1-d) away and not only as
// far as votes last.
func TestLongHoldOutlastsVotesAlsoUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startAll()
		defer w.close()
		var wg sync.WaitGroup
		for i := range 14 {
			wg.Go(func() {
				lease := mustLock(t, w.node(i%7+1).Mutex("x", LongHold()))
				for range 20 {
					time.Sleep(50 * time.Millisecond)
					if left := lease.Remaining(); left < 2*time.Second {
						t.Errorf("caller %d: remaining %v, want at least 2 s of T(1-d) = 2.7 s", i, left)
					}
				}
				if err := lease.Unlock(context.Background()); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	})
}

// A LongHold is told of its lock once a majority has granted it. A caller that gives
// up before leaves nothing behind.
func TestLongHoldIsToldWhenAMajorityHasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startAll()
		defer w.close()
		m := w.node(1).Mutex("x", LongHold())
		ctx, cancel := context.WithTimeout(t.Context(), 2*oneWay+oneWay/2) // has the tree quorum, not yet the majority
		defer cancel()
		if _, err := m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("lock that ends between quorum and majority: %v, want the deadline's error", err)
		}
		time.Sleep(time.Second)
		for name, n := range w.nodes {
			n.query(func(c *node.Node, now node.Instant) {
				if s := c.Status(now); s.Locks != 0 || s.Requests != 0 {
					t.Errorf("%s still has %d locks and %d requests, want 0", name, s.Locks, s.Requests)
				}
			})
		}
		begin := time.Now()
		lease := mustLock(t, m)
		if took := time.Since(begin); took != 4*oneWay {
			t.Errorf("long hold told after %v, want two round trips of %v", took, 2*oneWay)
		}
		mustUnlock(t, lease)
	})
}
