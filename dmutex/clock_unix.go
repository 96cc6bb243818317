//go:build unix && !linux

package dmutex

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootNow returns a monotonic time of this machine. Outside of Linux it may stand
// still while the machine sleeps, so a lease may then outlive its time: check the
// fencing token.
func BootNow() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it cannot fail
	return time.Duration(ts.Nano())
}
