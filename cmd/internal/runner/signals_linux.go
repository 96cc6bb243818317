package runner

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Signals starts to catch the signals that end a program, those that the caller
// of this program ignores left out (nohup). They are delivered on the channel
// until stop is called.
func Signals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	watch := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	for _, sig := range watch {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// catchMore adds the signals that matter once a command runs.
func catchMore(signals chan os.Signal) {
	signal.Notify(signals, unix.SIGCONT, unix.SIGWINCH)
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(signals, unix.SIGTSTP)
	}
}

// SurviveBrokenPipes lets a write to a standard stream that nobody reads fail,
// instead of ending this process. Programs that it starts are ended as usual: what
// is caught, and not ignored, is not inherited.
func SurviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// SignalStatus is the exit status of a program that a signal has ended.
func SignalStatus(sig os.Signal) int {
	if s, ok := sig.(unix.Signal); ok {
		return statusSignal + int(s)
	}
	return statusSignal
}

// IgnoreTerminalInput lets reading a terminal from the background fail, instead
// of stopping this process.
func IgnoreTerminalInput() { signal.Ignore(unix.SIGTTIN) }
