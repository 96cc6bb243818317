//go:build !linux

package runner

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals starts to catch the signals that end a program. They are delivered on
// the channel until stop is called.
func Signals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// SurviveBrokenPipes lets a write to a standard stream that nobody reads fail,
// instead of ending this process.
func SurviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// SignalStatus is the exit status of a program that a signal has ended.
func SignalStatus(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return statusSignal + int(s)
	}
	return statusSignal
}

// IgnoreTerminalInput does nothing on this system.
func IgnoreTerminalInput() {}
