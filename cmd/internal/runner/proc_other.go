//go:build !linux

package runner

// Processes cannot see other processes on this system: holds of callers that
// are gone end when their pings stop.
type Processes struct{}

// StartTime returns 0: not known.
func (Processes) StartTime(int) uint64 { return 0 }

// Alive returns false.
func (Processes) Alive(int, uint64) bool { return false }

// GroupAlive returns false.
func (Processes) GroupAlive(int, uint64) bool { return false }
