package api

import (
	"errors"
	"testing"
	"time"
)

func TestShutdownWaitsForTheProcessesOfHolds(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(watched())
		defer w.renewing(lease)()
		if err := c.hold.Group(200, 2); err != nil {
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

func TestShutdownIsOverWhenTheToldDeadlineIs(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		c, lease := w.held(watched())
		defer w.renewing(lease)()
		w.sleep(time.Second)
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
