//go:build !linux

package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// Gate is for Linux only.
func Gate(_ []string, stderr io.Writer) int {
	const usage = 64
	_, _ = fmt.Fprintln(stderr, "dmutex: the gate exists on Linux only")
	return usage
}

// Guard is for Linux only.
func Guard(_ []string, stderr io.Writer) int {
	const usage = 64
	_, _ = fmt.Fprintln(stderr, "dmutex: the guard exists on Linux only")
	return usage
}

// Run runs a command under a lease and blocks until it is over. Only the command
// itself is ended when the lock is lost, not what it started.
func Run(cfg *Config) (Result, error) {
	cmd := exec.Command(cfg.Args[0], cfg.Args[1:]...)
	cmd.Env = cfg.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cfg.Stdin, cfg.Stdout, cfg.Stderr
	err := cmd.Start()
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return Result{Status: statusNotFound}, fmt.Errorf("command %q was not found", cfg.Args[0])
	case err != nil:
		return Result{Status: statusCannotExecute}, fmt.Errorf("command %q cannot be executed: %w", cfg.Args[0], err)
	}
	defer signal.Stop(cfg.Signals)
	exited := make(chan int, 1)
	go func() {
		_ = cmd.Wait() // the state says it all
		exited <- cmd.ProcessState.ExitCode()
	}()
	return attend(cfg, cmd.Process, exited), nil
}

// attend watches the lease until the command is over.
func attend(cfg *Config, process *os.Process, exited <-chan int) Result {
	w := watch{grace: cfg.Grace}
	lost, closing := cfg.Lease.Lost(), cfg.Lease.Closing()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		switch w.step(Now(), cfg.Lease.Deadline()) {
		case actTerminate:
			_ = process.Signal(os.Interrupt)
		case actKill:
			_ = process.Kill()
		case actNothing:
		}
		timer.Reset(w.wait(Now(), cfg.Lease.Deadline(), cfg.Tick))
		select {
		case <-timer.C:
		case status := <-exited:
			return Result{Status: status, Lost: w.ending || Now() >= cfg.Lease.Deadline()}
		case sig := <-cfg.Signals:
			_ = process.Signal(sig)
		case <-lost:
			lost = nil
			w.over(Now())
		case <-closing:
			closing = nil
			w.end(cfg.Lease.Deadline())
			_ = process.Signal(os.Interrupt)
		}
	}
}
