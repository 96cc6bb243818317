package runner

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_BOOTTIME, which also runs while the machine sleeps.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("runner: CLOCK_BOOTTIME cannot be read: " + err.Error()) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// BootID tells whether two readings of Now come from the same clock: it is equal
// for all processes since one boot. Empty when it cannot be known.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
