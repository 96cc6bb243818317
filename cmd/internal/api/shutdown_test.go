package api

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestShutdownWaitsForTheProcessesOfHolds(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(watched())
		defer w.renewing(lease)()
		if err := c.hold.Group(Group{ID: 200, LeaderStart: 2}); err != nil {
			t.Fatal(err)
		}
		c.await(KindGrouped)
		waiter := w.ask("other", watched())
		<-w.node.calls
		done := make(chan error, 1)
		go func() { done <- w.server.Shutdown(t.Context()) }()
		if state := waiter.want(KindFailed); state.Code != CodeClosed {
			t.Errorf("a waiter got %+v, want code %q", state, CodeClosed)
		}
		if state := c.await(KindLosing); state.Reason != ReasonClosing || state.RemainingNS <= 0 {
			t.Errorf("a holder got %+v, want reason %q and the time left", state, ReasonClosing)
		}
		_, err := w.client.Lock(t.Context(), "third", watched())
		var failure *Error
		if !errors.As(err, &failure) || failure.Code != CodeClosed {
			t.Errorf("a new caller got %v, want code %q", err, CodeClosed)
		}
		w.sleep(time.Second)
		if lease.isUnlocked() {
			t.Fatal("unlocked while the command runs")
		}
		c.hold.Close()
		w.processes.kill(100)
		w.processes.killGroup(200)
		if err := <-done; err != nil || !lease.isUnlocked() {
			t.Errorf("Shutdown: %v, unlocked: %v; want the end once all is dead", err, lease.isUnlocked())
		}
	})
}

// A caller that cannot be seen has its time, and no more.
func TestShutdownIsOverWhenTheToldDeadlineIs(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(Hello{})
		defer w.renewing(lease)()
		w.sleep(time.Second)
		if err := c.hold.Ping(); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second / 2)
		told := c.hold.Deadline()
		if err := w.server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end := w.clock(); end < told || end > told+testTTL/16+time.Second {
			t.Errorf("Shutdown ended %v after the deadline that was told last", end-told)
		}
		if c.hold.Deadline() != told {
			t.Error("a later deadline was told during the shutdown")
		}
		if !lease.isUnlocked() {
			t.Error("not unlocked at the end")
		}
	})
}

// A shutdown never takes a lock from processes that live, whatever they were
// told; when its time is over they are left to the lease.
func TestShutdownLeavesTheLockToLivingProcesses(t *testing.T) {
	for _, last := range []string{"caller", "guard", "group"} {
		t.Run("the "+last+" dies last", func(t *testing.T) {
			inWorld(t, 0, func(t *testing.T, w *world) {
				c, lease := w.held(watched())
				defer w.renewing(lease)()
				if err := c.hold.Group(Group{ID: 200, LeaderStart: 2, Guard: 150, GuardStart: 3}); err != nil {
					t.Fatal(err)
				}
				c.await(KindGrouped)
				ctx, cancel := context.WithTimeout(t.Context(), 20*testTTL)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- w.server.Shutdown(ctx) }()
				w.sleep(5 * testTTL)
				ends := map[string]func(){
					"caller": func() { w.processes.kill(100) }, "guard": func() { w.processes.kill(150) }, "group": func() { w.processes.killGroup(200) },
				}
				end := ends[last]
				delete(ends, last)
				for _, f := range ends {
					f()
				}
				w.sleep(5 * testTTL)
				if lease.isUnlocked() {
					t.Fatalf("unlocked while the %s lives", last)
				}
				end()
				if err := <-done; err != nil || !lease.isUnlocked() {
					t.Errorf("Shutdown: %v, unlocked: %v; want the end once all is dead", err, lease.isUnlocked())
				}
			})
		})
	}
}

func TestShutdownGivesUpOnLivingProcesses(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		_, lease := w.held(watched())
		stop := w.renewing(lease)
		ctx, cancel := context.WithTimeout(t.Context(), 5*testTTL)
		defer cancel()
		if err := w.server.Shutdown(ctx); err == nil || lease.isUnlocked() {
			t.Errorf("Shutdown: %v, unlocked: %v; want an error and the lock left to the lease", err, lease.isUnlocked())
		}
		stop()
		w.processes.kill(100)
	})
}
