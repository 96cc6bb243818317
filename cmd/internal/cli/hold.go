package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/api"
	"github.com/treequorum/dmutex/cmd/internal/runner"
)

// holder is one call of dmutex lock.
type holder struct {
	*follower

	o       *lockOptions
	files   lockFiles
	signals chan os.Signal
	grace   time.Duration
	began   time.Time
}

// runLock gets the lock, does what is to be done under it, and releases it.
func runLock(ctx context.Context, o *lockOptions, files lockFiles) error {
	runner.SurviveBrokenPipes()
	signals, stop := runner.Signals()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &holder{o: o, files: files, signals: signals, began: time.Now()}
	if err := h.ask(ctx); err != nil {
		return err
	}
	defer h.hold.Close()
	if err := h.waitForLock(ctx); err != nil {
		return err
	}
	h.grace = o.grace
	if h.grace == 0 {
		h.grace = h.ttl / 12
	}
	if h.grace > h.ttl/4 {
		h.release()
		return usageErrorf("--grace %v is too long for leases of %v: choose at most %v", h.grace, h.ttl, h.ttl/4)
	}
	go h.ping()
	if err := h.waitForToken(); err != nil {
		return err
	}
	if len(o.command) == 0 {
		return h.holdOpen(ctx)
	}
	return h.runCommand()
}

// waitForLock blocks until the lock is held. The agent ends a wait that is
// limited; an agent that does not is not waited for much longer.
func (h *holder) waitForLock(ctx context.Context) error {
	const (
		patience    = 5 * time.Second
		tryPatience = 20 * time.Second // a try may take a twelfth of the longest T
		sayEvery    = 2 * time.Second
	)
	var late <-chan time.Time
	switch {
	case h.o.wait != nil:
		late = time.After(*h.o.wait + patience)
	case h.o.try:
		late = time.After(tryPatience)
	}
	ticker := time.NewTicker(sayEvery)
	defer ticker.Stop()
	now, said := waitingText(api.State{}), ""
	for {
		select {
		case <-h.held:
			return nil
		case <-h.over:
			if isClosed(h.held) {
				return nil // what comes next sees the loss
			}
			return h.endedEarly()
		case state := <-h.waiting:
			now = waitingText(state)
		case <-ticker.C:
			if now != said {
				h.files.say("waiting for %s: %s", h.o.name, now)
				said = now
			}
		case <-late:
			return &exitError{status: exitUnavailable, err: fmt.Errorf("the agent at %s does not answer in time", h.o.api)}
		case sig := <-h.signals:
			h.release()
			return &exitError{status: runner.SignalStatus(sig)}
		case <-ctx.Done():
			h.release()
			return &exitError{status: exitFailure, err: ctx.Err()}
		}
	}
}

func waitingText(s api.State) string {
	var parts []string
	if s.Holder != "" {
		parts = append(parts, "node "+strconv.Quote(s.Holder)+" has it")
	}
	if len(s.Missing) > 0 {
		parts = append(parts, "no answer from "+strings.Join(s.Missing, ", "))
	}
	if len(s.Starting) > 0 {
		parts = append(parts, started(s.Starting)+" started just now and grant nothing for up to T x 1.1 after their start")
	}
	if len(parts) == 0 {
		return "not granted yet"
	}
	return strings.Join(parts, "; ")
}

func started(members []string) string {
	if len(members) == 1 {
		return members[0] + " was"
	}
	return strings.Join(members, ", ") + " were"
}

// endedEarly says why there will be no lock.
func (h *holder) endedEarly() error {
	switch h.last.State {
	case api.KindFailed:
		return failedError(h.last.Failure())
	case api.KindLost:
		return &exitError{status: exitLost, err: fmt.Errorf("lost %s: %s", h.o.name, h.last.Reason)}
	case api.KindWaiting, api.KindHeld, api.KindGrouped, api.KindLosing, api.KindReleased:
	}
	return &exitError{status: exitUnavailable, err: fmt.Errorf("the agent at %s ended the connection: %w", h.o.api, h.err)}
}

// noToken says why there is no fencing token.
const noToken = "no fencing token for %s yet: every member must answer once after the whole cluster was started"

// waitForToken waits a moment for the fencing token, or with --require-token for
// as long as for the lock.
func (h *holder) waitForToken() error {
	const sayAfter = 2 * time.Second
	patience := min(time.Second, h.ttl/4)
	var late <-chan time.Time
	if !h.o.requireToken || h.o.try || h.o.wait != nil {
		if h.o.requireToken && h.o.wait != nil {
			patience = max(*h.o.wait-time.Since(h.began), patience)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	say := time.NewTimer(sayAfter)
	defer say.Stop()
	tick := time.NewTicker(h.ttl / 16)
	defer tick.Stop()
	for {
		select {
		case <-h.tokened:
			return nil
		case <-late:
			if h.o.requireToken {
				h.release()
				return &exitError{status: exitUnavailable, err: fmt.Errorf(noToken, h.o.name)}
			}
			h.files.say(noToken+"; DMUTEX_TOKEN is empty (--require-token waits for one)", h.o.name)
			return nil
		case <-say.C:
			h.files.say("holding %s, waiting for its fencing token: "+noToken, h.o.name, h.o.name)
		case <-h.lost:
			return h.lostError()
		case <-h.over:
			return h.endedEarly()
		case <-h.closing:
			h.release()
			return &exitError{status: exitUnavailable, err: errors.New("the agent is shutting down")}
		case <-tick.C:
			if h.mustEnd() {
				return h.lostError()
			}
		case sig := <-h.signals:
			h.release()
			return &exitError{status: runner.SignalStatus(sig)}
		}
	}
}

// mustEnd reports whether the lease is so near its end that nothing may go on
// under it, by this process's own clock.
func (h *holder) mustEnd() bool { return runner.Now() >= h.Deadline()-h.grace }

func (h *holder) lostError() error {
	reason := "not renewed: too few members answered"
	switch {
	case isClosed(h.lost):
		reason = h.reason
	case isClosed(h.closing):
		reason = "the agent is shutting down"
	case isClosed(h.over):
		reason = "the agent is gone"
	case !h.warned.Load():
		reason = "not renewed: the agent does not answer"
	}
	return &exitError{status: exitLost, err: fmt.Errorf("lost %s (%s)", h.o.name, reason)}
}

// holdOpen holds the lock without a command.
func (h *holder) holdOpen(ctx context.Context) error {
	h.files.say("holding %s%s until standard input is closed or a signal comes", h.o.name, h.tokenText())
	closed := h.inputClosed()
	tick := time.NewTicker(h.ttl / 16)
	defer tick.Stop()
	for {
		if h.mustEnd() { // first: this process may have been stopped
			return h.lostError()
		}
		select {
		case <-closed:
			h.release()
			return nil
		case <-h.signals:
			h.release()
			return nil
		case <-ctx.Done():
			h.release()
			return nil
		case <-h.lost:
			return h.lostError()
		case <-h.closing:
			lost := h.lostError()
			h.release()
			return lost
		case state := <-h.warning:
			h.warn(state)
		case <-tick.C:
		}
	}
}

func (h *holder) tokenText() string {
	if !isClosed(h.tokened) {
		return ""
	}
	return fmt.Sprintf(", token %d,", h.token)
}

// inputClosed returns a channel that is closed at the end of standard input. An
// input that cannot be read is not one that was closed: in the background of a
// terminal the lock is held until a signal comes.
func (h *holder) inputClosed() <-chan struct{} {
	runner.IgnoreTerminalInput()
	closed := make(chan struct{})
	go func() {
		if _, err := io.Copy(io.Discard, h.files.in); err == nil {
			close(closed)
		}
	}()
	return closed
}

func (h *holder) warn(state api.State) {
	h.files.say("%s is not being renewed; unless that changes it is lost in %v", h.o.name,
		time.Duration(state.RemainingNS).Round(time.Millisecond))
}

// runCommand runs the command, and releases the lock when it is over.
func (h *holder) runCommand() error {
	done := make(chan struct{})
	defer close(done)
	go h.passWarnings(done)
	result, err := runner.Run(&runner.Config{
		Args: h.o.command, Env: h.environment(), Stdin: h.files.in, Stdout: h.files.out, Stderr: h.files.err,
		Lease: h.follower, Grace: h.grace, Tick: h.ttl / 16, Announce: h.announce, Signals: h.signals,
	})
	switch {
	case result.Lost:
		lost := h.lostError() // what comes after the release is no reason
		// Nothing of the command runs any more: others need not wait for the lease's
		// end. As a rule the agent does not answer here.
		h.releaseWithin(100 * time.Millisecond)
		return lost
	case errors.Is(err, runner.ErrNotAnnounced):
		h.release()
		return &exitError{status: exitUnavailable, err: err}
	case err != nil && result.Status == 0:
		h.release()
		return &exitError{status: exitFailure, err: err}
	}
	h.release()
	if result.Status == 0 {
		return nil
	}
	return &exitError{status: result.Status, err: err}
}

func (h *holder) passWarnings(done <-chan struct{}) {
	for {
		select {
		case state := <-h.warning:
			h.warn(state)
		case <-done:
			return
		}
	}
}

// environment is that of this process, with what belongs to the lock.
func (h *holder) environment() []string {
	const name, token = envPrefix + "LOCK=", envPrefix + "TOKEN="
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, name) || strings.HasPrefix(v, token)
	})
	text := ""
	if isClosed(h.tokened) {
		text = strconv.FormatUint(h.token, 10)
	}
	return append(env, name+h.o.name, token+text)
}

// announce tells the agent of the command's group and waits until it has taken
// note; the runner watches the lease meanwhile.
func (h *holder) announce(g runner.Group) error {
	if err := h.hold.Group(api.Group(g)); err != nil {
		return err
	}
	select {
	case <-h.grouped:
		return nil
	case <-h.over:
		return errors.New("the connection to the agent has ended")
	}
}

// release gives the lock back, and waits a moment for the agent to say so.
func (h *holder) release() { h.releaseWithin(time.Second) }

// releaseWithin is release. An agent that does not answer sees later that this
// process is gone.
func (h *holder) releaseWithin(patience time.Duration) {
	go func() { _ = h.hold.Release() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-h.over:
	case <-timer.C:
	}
}
