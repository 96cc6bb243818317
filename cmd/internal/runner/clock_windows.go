package runner

import (
	"time"

	"golang.org/x/sys/windows"
)

// Now returns the time since the machine started, the time it slept included.
func Now() time.Duration { return windows.DurationSinceBoot() }

// BootID is empty: readings of Now must not be compared with another process's.
func BootID() string { return "" }
