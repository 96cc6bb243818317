package dmutex

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// plain gives all locks the same root, so that 4, 2 and 1 of seven are a whole path.
func plain(c *Config) { c.DisableRotation = true }

// crash ends a node without a word to the others.
func (w *world) crash(name string) {
	w.t.Helper()
	w.net.Isolate(name, true)
	if err := w.nodes[name].Close(context.Background()); err != nil {
		w.t.Fatalf("close %s: %v", name, err)
	}
	delete(w.nodes, name)
	w.net.Isolate(name, false)
}

func (w *world) startPlain() *world {
	w.t.Helper()
	for _, p := range w.peers {
		w.start(p.Name, plain)
	}
	time.Sleep(4 * time.Second)
	return w
}

// With a whole path of the tree killed, no quorum of the tree is left: the other
// four go on by rule M, within T. Who held by rule T keeps its lock. When the three
// return, a lock costs a path of the tree again.
func TestMajorityTakesOverWhenAPathIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startPlain()
		defer w.close()
		held := mustLock(t, w.node(3).Mutex("held"))
		before, err := held.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		free := mustLock(t, w.node(5).Mutex("free"))
		last, err := free.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, free)
		time.Sleep(2 * time.Second)
		for _, name := range []string{"n04", "n02", "n01"} {
			w.crash(name)
		}
		begin := time.Now()
		lease := mustLock(t, w.node(6).Mutex("free"))
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("a free lock took %v with 4, 2 and 1 killed, want at most T = 3s", took)
		}
		if token, err := lease.Token(t.Context()); err != nil || token <= last {
			t.Errorf("token %d, %v; want one above %d", token, err, last)
		}
		mustUnlock(t, lease)
		time.Sleep(10 * time.Second)
		if err := context.Cause(held.Context()); err != nil {
			t.Errorf("the lock held under T: %v, want it held on under M", err)
		}
		mustUnlock(t, held)
		again := mustLock(t, w.node(7).Mutex("held"))
		if token, err := again.Token(t.Context()); err != nil || token <= before {
			t.Errorf("token %d, %v; want one above %d", token, err, before)
		}
		mustUnlock(t, again)

		for _, name := range []string{"n04", "n02", "n01"} {
			w.start(name, plain)
		}
		time.Sleep(12 * time.Second) // quarantine, 2T of asking for votes, T/3 of silence
		sent := lockMessagesOf(w)
		mustUnlock(t, mustLock(t, w.node(7).Mutex("free")))
		time.Sleep(time.Second)
		if got := lockMessagesOf(w) - sent; got != 6 {
			t.Errorf("a lock costs %d messages after the three returned, want 3k = 6", got)
		}
	})
}

func lockMessagesOf(w *world) uint64 {
	var sum uint64
	for _, n := range w.nodes {
		sum += n.Stats().LockMessages
	}
	return sum
}

// The counter-example of the article's rule, which lets any majority stand for the
// tree: for 1..7 the path {4,2,1} and the majority {3,5,6,7} do not meet. Split so,
// never two sides hold. The side {1,2,4} has a quorum of the tree but no majority,
// so it loses what it holds; the side {3,5,6,7} may lock by rule M.
func TestPathAndMajorityThatDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7).startPlain()
		defer w.close()
		small := mustLock(t, w.node(1).Mutex("x")) // by the path {4,2,1}
		split := func(up bool) {
			for _, a := range []string{"n01", "n02", "n04"} {
				for _, b := range []string{"n03", "n05", "n06", "n07"} {
					w.net.SetLink(a, b, up)
					w.net.SetLink(b, a, up)
				}
			}
		}
		split(false)
		had := make(chan time.Time, 1)
		go func() {
			lease := mustLock(t, w.node(7).Mutex("x"))
			had <- time.Now()
			time.Sleep(20 * time.Second)
			mustUnlock(t, lease)
		}()
		receive(t, small.Context().Done())
		told := time.Now()
		if at := receive(t, had); at.Before(told) {
			t.Errorf("the majority had the lock %v before the path's holder was told of its loss", told.Sub(at))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := w.node(2).Mutex("x").Lock(ctx); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("lock on the side without a majority: %v, want ErrNoQuorum", err)
		}
		split(true)
		mustUnlock(t, mustLock(t, w.node(2).Mutex("x")))
	})
}

// A plain path is enough with TreeOnly, and a majority without one is not.
func TestTreeOnlyNeedsAPathAndNothingElse(t *testing.T) {
	for _, tt := range []struct {
		up   []string
		want bool
	}{
		{[]string{"n01", "n02", "n04"}, true},
		{[]string{"n03", "n05", "n06", "n07"}, false},
	} {
		t.Run(fmt.Sprint(tt.up), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 7)
				defer w.close()
				for _, name := range tt.up {
					w.start(name, func(c *Config) { c.DisableRotation, c.TreeOnly = true, true })
				}
				time.Sleep(4 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				lease, err := w.nodes[tt.up[0]].Mutex("x").Lock(ctx)
				if (err == nil) != tt.want {
					t.Fatalf("lock: %v, want success %v", err, tt.want)
				}
				if lease != nil {
					mustUnlock(t, lease)
				}
			})
		})
	}
}

// All members restarted one after the other, each after the former's quarantine:
// no holder loses its lock and no client waits longer than a second.
func TestRollingRestartKeepsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5).startAll()
		defer w.close()
		holder := w.start("holder", func(c *Config) { c.Client = true })
		client := w.start("client", func(c *Config) { c.Client = true })
		held := mustLock(t, holder.Mutex("held"))
		var worst time.Duration
		done := make(chan struct{})
		stop := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				begin := time.Now()
				lease := mustLock(t, client.Mutex(fmt.Sprintf("job-%d", i%5)))
				worst = max(worst, time.Since(begin))
				mustUnlock(t, lease)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		for _, p := range w.peers {
			w.crash(p.Name)
			w.start(p.Name, nil)
			time.Sleep(4 * time.Second)
		}
		close(stop)
		receive(t, done)
		if err := context.Cause(held.Context()); err != nil {
			t.Errorf("the held lock: %v, want it held through all restarts", err)
		}
		mustUnlock(t, held)
		if worst > time.Second {
			t.Errorf("a client waited %v, want at most 1s", worst)
		}
	})
}

// All members restarted at once: nobody knows anything, so the lock is to be had
// after the quarantine, T(1+d), and T/3 at the most, and tokens rise.
func TestRestartOfAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5).startAll()
		defer w.close()
		lease := mustLock(t, w.node(1).Mutex("x"))
		before, err := lease.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.peers {
			w.crash(p.Name)
		}
		time.Sleep(time.Second)
		for _, p := range w.peers {
			w.start(p.Name, nil)
		}
		begin := time.Now()
		lease = mustLock(t, w.node(3).Mutex("x"))
		if took, limit := time.Since(begin), 3300*time.Millisecond+time.Second; took > limit {
			t.Errorf("lock %v after all were started again, want at most T(1+d) + T/3 = %v", took, limit)
		}
		after, err := lease.Token(t.Context())
		if err != nil || after <= before {
			t.Errorf("token %d, %v; want one above %d", after, err, before)
		}
		mustUnlock(t, lease)
	})
}

// Members that were started just now answer, and say that they may not grant yet:
// that is not the same as no answer.
func TestMembersThatStartAreNotCalledMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.start("n01", nil)
		w.start("n02", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.node(1).Mutex("x").Lock(ctx)
		none, ok := errors.AsType[*NoQuorumError](err)
		if !ok || fmt.Sprint(none.Starting) != "[n01 n02]" || fmt.Sprint(none.Missing) != "[n03]" {
			t.Errorf("lock: %v, want n01 and n02 starting and n03 missing", err)
		}
		if err := w.node(1).Ready(); !errors.As(err, new(*QuarantineError)) {
			t.Errorf("ready: %v, want that it is quarantined", err)
		}
		time.Sleep(4 * time.Second)
		if err := w.node(1).Ready(); err != nil {
			t.Errorf("ready after the quarantine: %v, want nil", err)
		}
	})
}

// With TreeOnly a majority is not enough to be ready.
func TestReadyWithTreeOnlyNeedsAQuorumOfTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		for _, name := range []string{"n03", "n05", "n06", "n07"} {
			w.start(name, func(c *Config) { c.DisableRotation, c.TreeOnly = true, true })
		}
		time.Sleep(5 * time.Second)
		if err := w.node(3).Ready(); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("ready with 3, 5, 6, 7: %v, want ErrNoQuorum", err)
		}
		w.start("n04", func(c *Config) { c.DisableRotation, c.TreeOnly = true, true })
		time.Sleep(5 * time.Second)
		if err := w.node(3).Ready(); err != nil {
			t.Errorf("ready with 4 too: %v, want nil", err)
		}
	})
}

// An error of a context that ended with a cause matches both.
func TestErrorsMatchTheContextsErrorAndItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3).startAll()
		defer w.close()
		mine := errors.New("mine")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		if _, err := w.node(1).Mutex("x").Lock(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, mine) {
			t.Errorf("lock with an ended context: %v, want canceled and its cause", err)
		}
	})
}
