package dmutex

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/treequorum/dmutex/node"
)

func TestLockPassesBetweenNodesInTwoOneWayDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startAll()
		defer w.close()
		begin := time.Now()
		first := mustLock(t, w.node(1).Mutex("x"))
		if took := time.Since(begin); took != 2*oneWay {
			t.Errorf("a free lock took %v, want one round trip of %v", took, 2*oneWay)
		}
		got := make(chan time.Time, 1)
		go func() {
			second := mustLock(t, w.node(7).Mutex("x"))
			got <- time.Now()
			mustUnlock(t, second)
		}()
		time.Sleep(time.Second)
		released := time.Now()
		mustUnlock(t, first)
		if took := receive(t, got).Sub(released); took != 2*oneWay {
			t.Errorf("hand-over took %v, want two one-way delays of %v", took, oneWay)
		}
	})
}

func TestNeverTwoHoldersAmongManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startAll()
		defer w.close()
		var inside, total atomic.Int32
		var lastToken atomic.Uint64
		var wg sync.WaitGroup
		for i := range 7 {
			for range 3 {
				wg.Go(func() {
					for range 5 {
						lease := mustLock(t, w.node(i+1).Mutex("x"))
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d holders at once, want 1", n)
						}
						token, err := lease.Token(t.Context())
						if err != nil {
							t.Errorf("token: %v", err)
						}
						if last := lastToken.Swap(token); token <= last {
							t.Errorf("token %d after %d, want a higher one", token, last)
						}
						time.Sleep(5 * time.Millisecond)
						inside.Add(-1)
						total.Add(1)
						mustUnlock(t, lease)
					}
				})
			}
		}
		wg.Wait()
		if total.Load() != 105 {
			t.Errorf("%d holds, want 105", total.Load())
		}
	})
}

func TestHolderThatIsCutOffIsToldBeforeTheNextHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startAll()
		defer w.close()
		lease := mustLock(t, w.node(1).Mutex("x"))
		time.Sleep(5 * time.Second) // longer than T: a holder that is heard has no time limit
		if lease.Remaining() < 2*time.Second {
			t.Fatalf("remaining %v after 5 s of holding, want most of T = 3 s", lease.Remaining())
		}
		w.net.Isolate("n01", true)
		cut := time.Now()
		next := make(chan time.Time, 1)
		go func() {
			second := mustLock(t, w.node(4).Mutex("x"))
			next <- time.Now()
			mustUnlock(t, second)
		}()
		receive(t, lease.Context().Done())
		told := time.Now()
		var lost *LostError
		if !errors.As(context.Cause(lease.Context()), &lost) || lost.Reason != LossCutOff {
			t.Errorf("cause %v, want a LostError that says cut off", context.Cause(lease.Context()))
		}
		if limit := cut.Add(3 * time.Second); told.After(limit) {
			t.Errorf("told %v after the cut, want at most T = 3s", told.Sub(cut))
		}
		had := receive(t, next)
		if had.Before(told) || had.Sub(cut) > 3300*time.Millisecond+2*time.Second {
			t.Errorf("next holder %v after the cut, told after %v; want later than the notice and within T(1+d) + 2 s",
				had.Sub(cut), told.Sub(cut))
		}
		if err := lease.Unlock(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("unlock after the loss: %v, want ErrLost", err)
		}
		if err := lease.Unlock(t.Context()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("second unlock: %v, want ErrNotHeld", err)
		}
	})
}

func TestLockThatGivesUpReturnsAtOnceAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		lease := mustLock(t, w.node(1).Mutex("x"))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := w.node(2).Mutex("x").Lock(ctx)
		if took := time.Since(begin); took != 1500*time.Millisecond {
			t.Errorf("Lock returned after %v, want 1.5s, when its context ended", took)
		}
		var busy *BusyError
		if !errors.As(err, &busy) || !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || busy.Holder != "n01" {
			t.Errorf("error %v, want busy, held by n01, and the deadline", err)
		}
		mustUnlock(t, lease)
		time.Sleep(time.Second)
		for name, n := range w.nodes {
			n.query(func(c *node.Node, now node.Instant) {
				if s := c.Status(now); s.Locks != 0 || s.Requests != 0 {
					t.Errorf("%s still has %d locks and %d requests 1 s after all gave up, want 0", name, s.Locks, s.Requests)
				}
			})
		}
	})
}

func TestNoQuorumNamesTheMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		w.net.Isolate("n01", true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := w.node(1).Mutex("x").Lock(ctx)
		var none *NoQuorumError
		if !errors.As(err, &none) || !errors.Is(err, ErrNoQuorum) || len(none.Missing) != 2 {
			t.Fatalf("error %v, want no quorum with n02 and n03 missing", err)
		}
		if err := w.node(1).Ready(); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("ready: %v, want ErrNoQuorum", err)
		}
		w.net.Isolate("n01", false)
		begin := time.Now()
		mustUnlock(t, mustLock(t, w.node(1).Mutex("x")))
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("lock %v after the cut was healed, want at most 5 s", took)
		}
	})
}

func TestTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		lease, err := w.node(1).Mutex("x").TryLock(t.Context())
		if err != nil {
			t.Fatalf("try of a free lock: %v", err)
		}
		for i := 1; i <= 3; i++ {
			begin := time.Now()
			_, err := w.node(i).Mutex("x").TryLock(t.Context())
			if limit := 4*oneWay + 3*time.Second/24; !errors.Is(err, ErrBusy) || time.Since(begin) > limit {
				t.Errorf("try on n%02d: %v after %v, want ErrBusy within %v", i, err, time.Since(begin), limit)
			}
		}
		mustUnlock(t, lease)
		time.Sleep(oneWay)
		lease, err = w.node(3).Mutex("x").TryLock(t.Context())
		if err != nil {
			t.Fatalf("try after the unlock: %v", err)
		}
		mustUnlock(t, lease)
	})
}

func TestLossIsKnownWhenAResumedProcessCallsTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		lease := mustLock(t, w.node(1).Mutex("x"))
		w.jump.Add(int64(6 * time.Second)) // the processes were stopped for 2T, no goroutine has run since
		if left := lease.Remaining(); left != 0 {
			t.Errorf("remaining %v after a pause of 2T, want 0", left)
		}
		if err := context.Cause(lease.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("cause right after a pause of 2T: %v, want ErrLost", err)
		}
		if _, err := lease.Token(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("token after the loss: %v, want ErrLost", err)
		}
		mustUnlock(t, mustLock(t, w.node(2).Mutex("x")))
	})
}

func TestPeersThatDifferAreToldAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		for _, p := range w.peers {
			w.start(p.Name, func(c *Config) {
				if p.Name == "n07" {
					c.LeaseTTL = 4 * time.Second
				}
			})
		}
		time.Sleep(5 * time.Second)
		if _, err := w.node(7).Mutex("x").Lock(t.Context()); !errors.Is(err, ErrPeersDiffer) {
			t.Errorf("lock on the odd one: %v, want ErrPeersDiffer", err)
		}
		if err := w.node(7).Ready(); !errors.Is(err, ErrPeersDiffer) {
			t.Errorf("ready of the odd one: %v, want ErrPeersDiffer", err)
		}
		mustUnlock(t, mustLock(t, w.node(2).Mutex("x")))
		if err := w.node(2).Ready(); err != nil {
			t.Errorf("ready of the others: %v, want nil", err)
		}
	})
}

func TestCloseEndsCallsAndLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		lease := mustLock(t, w.node(1).Mutex("x"))
		failed := make(chan error, 1)
		go func() {
			_, err := w.node(1).Mutex("x").Lock(context.Background())
			failed <- err
		}()
		got := make(chan *Lease, 1)
		go func() { got <- mustLock(t, w.node(2).Mutex("x")) }()
		time.Sleep(time.Second)
		begin := time.Now()
		if err := w.node(1).Close(t.Context()); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := receive(t, failed); !errors.Is(err, ErrClosed) {
			t.Errorf("waiting call: %v, want ErrClosed", err)
		}
		var lost *LostError
		if !errors.As(context.Cause(lease.Context()), &lost) || lost.Reason != LossClosed {
			t.Errorf("cause %v, want lost because closed", context.Cause(lease.Context()))
		}
		second := receive(t, got)
		if took := time.Since(begin); took > 3*time.Second/4+2*oneWay {
			t.Errorf("the next holder came %v after Close, want T/4 at the most, and not after T: it released", took)
		}
		mustUnlock(t, second)
		if _, err := w.node(1).Mutex("x").Lock(t.Context()); !errors.Is(err, ErrClosed) || !errors.Is(w.node(1).Err(), ErrClosed) {
			t.Errorf("lock after close: %v, want ErrClosed", err)
		}
	})
}

// A holder that stops when it is told has stopped before anybody else gets in, also
// when what it is told is that its node closes.
func TestCloseWaitsForHoldersToUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		var inside atomic.Int32
		const stopping = 200 * time.Millisecond
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- w.node(1).Do(context.Background(), "x", func(ctx context.Context) error {
				inside.Add(1)
				close(started)
				<-ctx.Done()
				time.Sleep(stopping)
				inside.Add(-1)
				return nil
			})
		}()
		receive(t, started)
		got := make(chan int32, 1)
		go func() {
			lease := mustLock(t, w.node(2).Mutex("x"))
			got <- inside.Load()
			mustUnlock(t, lease)
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		if err := w.node(1).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if others := receive(t, got); others != 0 {
			t.Error("the next holder was in before the closed node's holder had stopped")
		}
		if took := time.Since(begin); took > stopping+time.Second/10 {
			t.Errorf("close and hand-over took %v, want little more than the holder's %v", took, stopping)
		}
		if err := receive(t, ended); !errors.Is(err, ErrLost) {
			t.Errorf("Do of the closed node: %v, want ErrLost", err)
		}
	})
}

// A caller that waits behind another of its own node is told who has the lock.
func TestWaitingBehindALocalCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		first := mustLock(t, w.node(1).Mutex("x"))
		told := make(chan Waiting, 16)
		done := make(chan *Lease, 1)
		go func() { done <- mustLock(t, w.node(1).Mutex("x", OnWaiting(func(f Waiting) { told <- f }))) }()
		if f := receive(t, told); f.Holder != "n01" || !f.Holds {
			t.Errorf("told %+v, want that n01 holds", f)
		}
		mustUnlock(t, first)
		mustUnlock(t, receive(t, done))
	})
}

// A hold by votes is never told further than T/3 ahead, so what is told must not
// lag behind what is known.
func TestDeadlineByMajorityDoesNotLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startPlain()
		defer w.close()
		for _, name := range []string{"n04", "n02", "n01"} {
			w.crash(name)
		}
		lease := mustLock(t, w.node(6).Mutex("x"))
		time.Sleep(10 * oneWay) // before, the votes are as old as the KeepAlives of one that waits
		least := time.Hour
		for range 4000 {
			time.Sleep(5 * time.Millisecond)
			least = min(least, lease.Remaining())
		}
		// A vote lasts 0.9 s from its echo, comes each T/24 = 125 ms, 20 ms on the way.
		if want := 700 * time.Millisecond; least < want {
			t.Errorf("remaining %v at one moment of 20 s, want at least %v", least, want)
		}
		mustUnlock(t, lease)
	})
}

func TestStandaloneNodeGrantsAtOnce(t *testing.T) {
	cfg := DefaultLocalConfig()
	cfg.Name, cfg.Standalone, cfg.Peers = "dev", true, []Peer{{Name: "dev"}}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer goleak.VerifyNone(t)
	defer n.Close(context.Background())
	ran := false
	err = n.Do(t.Context(), "x", func(ctx context.Context) error {
		ran = ctx.Err() == nil
		return nil
	})
	if err != nil || !ran {
		t.Fatalf("Do: %v, ran %v, want nil and true", err, ran)
	}
	l := n.Locker("x")
	l.Lock()
	if _, err := n.Mutex("x").TryLock(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("try while the Locker is locked: %v, want ErrBusy", err)
	}
	l.Unlock()
}
