package dmutex

import (
	"time"

	"golang.org/x/sys/windows"
)

// BootNow returns the time since this machine booted, the time it slept
// included, to about 16 ms.
func BootNow() time.Duration { return windows.DurationSinceBoot() }
