package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/api"
	"github.com/treequorum/dmutex/cmd/internal/runner"
)

// ask sends the request to the agent.
func (h *holder) ask(ctx context.Context) error {
	hello := api.Hello{
		Try: h.o.try, Label: h.o.label, Token: true,
		PID: os.Getpid(), PIDStart: runner.Processes{}.StartTime(os.Getpid()), BootID: runner.BootID(),
	}
	if h.o.wait != nil {
		ms := (*h.o.wait + time.Millisecond - 1).Milliseconds()
		hello.WaitMS = &ms
	}
	type answer struct {
		hold *api.Hold
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		hold, err := h.askPatiently(ctx, hello)
		answers <- answer{hold, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return agentError(a.err)
		}
		h.follower = follow(a.hold)
		return nil
	case sig := <-h.signals: // ctx ends with this function's caller, and the request with it
		return &exitError{status: runner.SignalStatus(sig)}
	}
}

// askPatiently gives an agent that was started together with this command a moment
// to listen, unless nothing is to be waited for.
func (h *holder) askPatiently(ctx context.Context, hello api.Hello) (*api.Hold, error) {
	const patience, pause = 2 * time.Second, 50 * time.Millisecond
	client := api.NewClient(h.o.api, runner.Now, runner.BootID())
	left := patience
	if h.o.wait != nil {
		left = min(left, *h.o.wait)
	}
	for {
		hold, err := client.Lock(ctx, h.o.name, hello)
		if !errors.Is(err, syscall.ECONNREFUSED) || h.o.try || left <= 0 {
			return hold, err
		}
		left -= pause
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// agentError says why the agent did not take the request.
func agentError(err error) error {
	if failure, ok := errors.AsType[*api.Error](err); ok {
		return failedError(failure)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf(
			`%w; start one with "dmutex agent" ("dmutex agent --dev" for a single node), or say where it is with --api or DMUTEX_API`, err)
	}
	return &exitError{status: exitUnavailable, err: err}
}

// failedError gives the agent's refusal an exit status.
func failedError(failure *api.Error) error {
	status := exitUnavailable
	switch failure.Code {
	case api.CodeBusy, api.CodeOverloaded:
		status = exitBusy
	case api.CodeInvalidName:
		status = exitUsage
	case api.CodeNoQuorum, api.CodePeersDiffer, api.CodeClosed, api.CodeBadRequest, api.CodeForbidden, api.CodeInternal:
	}
	return &exitError{status: status, err: failure}
}
