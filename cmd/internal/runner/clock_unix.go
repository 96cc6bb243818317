//go:build unix && !linux

package runner

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the monotonic clock; on macOS it also runs while the machine sleeps.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("runner: the monotonic clock cannot be read: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// BootID is empty: readings of Now must not be compared with another process's.
func BootID() string { return "" }
