package api

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHoldGoesFromWaitingToReleased(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		hello := watched()
		hello.Token, hello.Label = true, "for people"
		c := w.ask("dns/example.com", hello)
		call := <-w.node.calls
		if call.name != "dns/example.com" || call.options.Label != "for people" || call.options.Try {
			t.Errorf("the node was asked for %q with %+v", call.name, call.options)
		}
		if deadline, ok := call.ctx.Deadline(); ok {
			t.Errorf("a wait for ever has the deadline %v", deadline)
		}
		call.options.Waiting(Waiting{Ahead: 2, Holder: "b", Since: 1500 * time.Millisecond, Missing: []string{"c"}, Starting: []string{"d", "e"}})
		state := c.want(KindWaiting)
		if state.Ahead != 2 || state.Holder != "b" || state.SinceMS != 1500 || len(state.Missing) != 1 || len(state.Starting) != 2 {
			t.Errorf("waiting is %+v", state)
		}
		lease := newFakeLease(w.clock() + testTTL)
		call.answer <- outcome{lease: lease}
		state = c.want(KindHeld)
		if state.DeadlineNS != int64(lease.BootDeadline()) || state.BootID != testBoot || state.TTLMS != 3000 || state.Token != 0 {
			t.Errorf("held is %+v, want deadline %d", state, lease.BootDeadline())
		}
		if got := c.hold.Deadline(); got != lease.BootDeadline() {
			t.Errorf("the client's deadline is %v, want %v", got, lease.BootDeadline())
		}
		lease.tokens <- 4711
		if state = c.want(KindHeld); state.Token != 4711 {
			t.Errorf("held is %+v, want the token", state)
		}
		lease.renew(w.clock() + testTTL + time.Millisecond)
		if state = c.want(KindHeld); state.DeadlineNS != int64(lease.BootDeadline()) || state.Token != 4711 {
			t.Errorf("after a renewal held is %+v, want deadline %d and the token", state, lease.BootDeadline())
		}
		if err := c.hold.Group(Group{ID: 200, LeaderStart: 2}); err != nil {
			t.Fatal(err)
		}
		if state = c.want(KindGrouped); !state.Watched {
			t.Error("a group of this machine is not watched")
		}
		if lease.isUnlocked() {
			t.Error("unlocked before the release")
		}
		if err := c.hold.Release(); err != nil {
			t.Fatal(err)
		}
		c.want(KindReleased)
		c.wantEnd()
		if !lease.isUnlocked() {
			t.Error("not unlocked after the release")
		}
	})
}

func TestHoldFailsWithTheCodeOfTheNode(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		failures := []*Error{
			{Code: CodeBusy, Message: "busy", Holder: "b", SinceMS: 7, Ahead: 3},
			{Code: CodeNoQuorum, Message: "no quorum", Missing: []string{"b", "c"}, Starting: []string{"d"}},
			{Code: CodePeersDiffer, Message: "differ"},
			{Code: CodeOverloaded, Message: "full"},
			{Code: CodeInvalidName, Message: "name"},
			{Code: CodeClosed, Message: "closed"},
		}
		for _, want := range failures {
			c := w.ask("nightly", watched())
			(<-w.node.calls).answer <- outcome{err: want}
			state := c.want(KindFailed)
			got := state.Failure()
			if got.Code != want.Code || got.Message != want.Message || got.Holder != want.Holder ||
				got.Ahead != want.Ahead || got.SinceMS != want.SinceMS || len(got.Missing) != len(want.Missing) || len(got.Starting) != len(want.Starting) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			c.wantEnd()
		}
		c := w.ask("nightly", watched())
		(<-w.node.calls).answer <- outcome{err: errors.New("odd")}
		if state := c.want(KindFailed); state.Code != CodeInternal || state.Message != "odd" {
			t.Errorf("an unknown error became %+v", state)
		}
	})
}

func TestHoldPassesTryAndWait(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c := w.ask("nightly", Hello{Try: true})
		call := <-w.node.calls
		if !call.options.Try {
			t.Error("try did not reach the node")
		}
		call.answer <- outcome{err: &Error{Code: CodeBusy}}
		c.want(KindFailed)

		ms := int64(2500)
		began := w.clock()
		c = w.ask("nightly", Hello{WaitMS: &ms})
		<-w.node.calls
		if state := c.want(KindFailed); state.Code != CodeBusy || w.clock()-began != 2500*time.Millisecond {
			t.Errorf("a wait of 2.5s ended after %v with %+v", w.clock()-began, state)
		}
	})
}

func TestHoldTellsALoss(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(watched())
		lease.lose("cut off")
		if state := c.want(KindLost); state.Reason != "cut off" {
			t.Errorf("lost is %+v, want reason %q", state, "cut off")
		}
		c.wantEnd()
	})
}

func TestHoldWarnsWhenNothingIsRenewed(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		began := w.clock()
		c, lease := w.held(watched())
		state := c.want(KindLosing)
		left := time.Duration(state.RemainingNS)
		if state.Reason != ReasonNotRenewed || left >= testTTL/2 || left < testTTL/3 {
			t.Errorf("losing is %+v, want a warning with a little less than %v left", state, testTTL/2)
		}
		lease.renew(w.clock() + testTTL)
		c.want(KindHeld)
		c.want(KindLosing)
		if took := w.clock() - began; took < testTTL {
			t.Errorf("the second warning came %v after the start, with a lease that was renewed", took)
		}
		lease.lose("expired")
		c.want(KindLost)
	})
}

// A lease that depends on votes never lasts long, and is renewed often: that is
// told soon, and is nothing to warn of.
func TestShortLeasesAreToldSoon(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		const span = testTTL * 3 / 10
		c := w.ask("nightly", watched())
		lease := newFakeLease(w.clock() + span)
		(<-w.node.calls).answer <- outcome{lease: lease}
		var lag time.Duration
		for range 100 {
			renewed := w.clock()
			lease.renew(renewed + span)
			for w.sleep(time.Millisecond); c.hold.Deadline() < renewed+span && lag < testTTL; {
				w.sleep(time.Millisecond)
			}
			lag = max(lag, w.clock()-renewed)
			w.sleep(testTTL / 24)
		}
		if lag > testTTL/64+2*time.Millisecond {
			t.Errorf("a deadline was told %v after the renewal, want at most %v", lag, testTTL/64)
		}
		lease.lose("enough")
		for state := range c.states {
			if state.State == KindLosing {
				t.Errorf("got %+v though all was renewed", state)
			}
		}
	})
}

// The early end rule: a bare end of the connection keeps a hold while the
// caller's processes live.
func TestEndOfConnectionKeepsTheHoldOfLivingProcesses(t *testing.T) {
	for _, last := range []string{"caller", "guard", "group"} {
		t.Run("the "+last+" dies last", func(t *testing.T) {
			inWorld(t, 0, func(t *testing.T, w *world) {
				c, lease := w.held(watched())
				defer w.renewing(lease)()
				if err := c.hold.Group(Group{ID: 200, LeaderStart: 2, Guard: 150, GuardStart: 3}); err != nil {
					t.Fatal(err)
				}
				c.await(KindGrouped)
				c.hold.Close()
				w.sleep(10 * testTTL)
				if lease.isUnlocked() {
					t.Fatal("unlocked while all live")
				}
				ends := map[string]func(){
					"caller": func() { w.processes.kill(100) }, "guard": func() { w.processes.kill(150) }, "group": func() { w.processes.killGroup(200) },
				}
				end := ends[last]
				delete(ends, last)
				for _, f := range ends {
					f()
				}
				w.sleep(10 * testTTL)
				if lease.isUnlocked() {
					t.Fatalf("unlocked while the %s lives", last)
				}
				end()
				w.sleep(2*watchEvery + time.Millisecond)
				if !lease.isUnlocked() {
					t.Fatalf("still locked %v after the last process died", 2*watchEvery)
				}
			})
		})
	}
}

// A number that is another process's, on this machine or elsewhere, keeps
// nothing: the hold of such a caller lasts for T after its last ping.
func TestEndOfConnectionKeepsTheHoldOfStrangersForTheTTL(t *testing.T) {
	strangers := map[string]Hello{
		"no pid":            {},
		"no boot id":        {PID: 100, PIDStart: 1},
		"another machine":   {PID: 100, PIDStart: 1, BootID: "boot-2"},
		"a reused pid":      {PID: 100, PIDStart: 9, BootID: testBoot},
		"no start time":     {PID: 100, BootID: testBoot},
		"not visible":       {PID: 300, PIDStart: 3, BootID: testBoot},
		"invisible, zeroed": {PID: 300, BootID: testBoot},
	}
	for name, hello := range strangers {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(t *testing.T, w *world) {
				c, lease := w.held(hello)
				defer w.renewing(lease)()
				w.sleep(time.Second)
				if err := c.hold.Ping(); err != nil {
					t.Fatal(err)
				}
				w.sleep(time.Second)
				c.hold.Close()
				w.sleep(testTTL - time.Second - time.Millisecond)
				if lease.isUnlocked() {
					t.Fatal("unlocked before T after the last ping")
				}
				w.sleep(testTTL/16 + time.Millisecond)
				if !lease.isUnlocked() {
					t.Fatal("still locked T after the last ping")
				}
			})
		})
	}
}

func TestGroupThatCannotBeSeenNeedsPings(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(watched())
		defer w.renewing(lease)()
		if err := c.hold.Group(Group{ID: 200, LeaderStart: 99}); err != nil {
			t.Fatal(err)
		}
		if state := c.await(KindGrouped); state.Watched {
			t.Error("a group with another leader is watched")
		}
		if state := c.await(KindLost); state.Reason != "no ping for 3s" {
			t.Errorf("lost is %+v, want for want of pings", state)
		}
	})
}

// The deadline that a stranger is told never promises more than its pings do.
func TestPingsKeepAStrangersHold(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(Hello{BootID: "boot-2"})
		defer w.renewing(lease)()
		for range 8 {
			w.sleep(testTTL / 2)
			if err := c.hold.Ping(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if lease.isUnlocked() {
			t.Fatal("unlocked though pings came each T/2")
		}
		last := w.clock()
		var told time.Duration
		for state := range c.states {
			switch state.State {
			case KindHeld:
				told = max(told, time.Duration(state.DeadlineNS))
				continue
			case KindLosing:
				continue
			case KindLost:
			default:
				t.Errorf("unexpected %+v", state)
			}
			break
		}
		if end := w.clock(); end < last+testTTL || end > last+testTTL+testTTL/16 {
			t.Errorf("the hold ended %v after the last ping, want %v", end-last, testTTL)
		}
		if told > last+testTTL {
			t.Errorf("the caller was told %v beyond T after its last ping", told-last-testTTL)
		}
	})
}

func TestEndOfConnectionCancelsAWait(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c := w.ask("nightly", watched())
		call := <-w.node.calls
		began := w.clock()
		c.hold.Close()
		<-call.ctx.Done()
		if took := w.clock() - began; took != 0 {
			t.Errorf("the wait was cancelled after %v, want at once", took)
		}
	})
}

// Nobody can work under a lock that was never told.
func TestLockThatComesTooLateIsUnlocked(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		lease := newFakeLease(w.clock() + testTTL)
		w.node.late = lease
		c := w.ask("nightly", watched())
		<-w.node.calls
		c.hold.Close()
		w.sleep(time.Millisecond)
		if !lease.isUnlocked() {
			t.Error("not unlocked")
		}
	})
}

func TestReleaseEndsAWait(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c := w.ask("nightly", watched())
		call := <-w.node.calls
		if err := c.hold.Release(); err != nil {
			t.Fatal(err)
		}
		c.want(KindReleased)
		if call.ctx.Err() == nil {
			t.Error("the node was not told")
		}
	})
}

// A wrong line is the caller's mistake; its command may run all the same.
func TestWrongLineKeepsTheHold(t *testing.T) {
	lines := map[string]any{
		"two parts":    Update{Ping: 1, Release: true},
		"no part":      Update{},
		"unknown part": map[string]any{"pong": 1},
		"bad group":    Update{Group: -5},
		"bad guard":    Update{Group: 200, GroupLeaderStart: 2, Guard: 1},
		"lone guard":   Update{Guard: 150, GuardStart: 3},
		"group 1":      Update{Group: 1},
		"wrong type":   map[string]any{"ping": "x"},
		"too long":     map[string]any{"ping": string(make([]byte, MaxRequestLine))},
	}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(t *testing.T, w *world) {
				c, lease := w.held(watched())
				defer w.renewing(lease)()
				_ = c.hold.send(line) // the server may stop reading in the middle
				if state := c.await(KindFailed); state.Code != CodeBadRequest {
					t.Errorf("failed is %+v, want code %q", state, CodeBadRequest)
				}
				w.sleep(2 * testTTL)
				if lease.isUnlocked() {
					t.Fatal("unlocked by a wrong line")
				}
				w.processes.kill(100)
				w.sleep(2*watchEvery + time.Millisecond)
				if !lease.isUnlocked() {
					t.Fatal("still locked after the caller died")
				}
			})
		})
	}
}
