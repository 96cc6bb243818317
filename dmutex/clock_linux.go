package dmutex

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootNow returns the time since this machine booted, the time it slept
// included (CLOCK_BOOTTIME). Values of one boot of one machine can be compared
// across processes, see [Lease.BootDeadline].
func BootNow() time.Duration {
	var ts unix.Timespec
	// It cannot fail: Linux has had this clock since 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
