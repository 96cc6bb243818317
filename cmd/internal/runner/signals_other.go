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

// SignalStatus is the exit status of a program that a signal has ended.
func SignalStatus(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return statusSignal + int(s)
	}
	return statusSignal
}

// IgnoreTerminalInput does nothing on this system.
func IgnoreTerminalInput() {}
