package runner

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes orphaned descendants children of this process, so that
// they can be found after the process between has died.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// killAll sends KILL to the group and to every descendant of this process but
// spared, in whatever group or session, and returns how many still run. What
// forks meanwhile is met by the next call.
func killAll(group, spared int) int {
	_ = unix.Kill(-group, unix.SIGKILL)
	living := descendants(group, spared)
	for _, s := range living {
		_ = unix.Kill(s.pid, unix.SIGKILL)
	}
	return len(living)
}

// descendants returns the running members of the group and the running
// descendants of this process, those below a zombie included, but not spared.
func descendants(group, spared int) []procStat {
	parents := make(map[int]int)
	var living []procStat
	scanProcesses(func(s procStat) {
		parents[s.pid] = s.ppid
		if s.running() {
			living = append(living, s)
		}
	})
	self := os.Getpid()
	return slices.DeleteFunc(living, func(s procStat) bool {
		return s.pid == self || s.pid == spared || s.pgrp != group && !isBelow(s.pid, self, parents)
	})
}

// isBelow reports whether ancestor is above pid. The table was not read at one
// moment and may hold a loop: the climb is bounded.
func isBelow(pid, ancestor int, parents map[int]int) bool {
	for range len(parents) {
		parent, ok := parents[pid]
		if !ok || parent == 0 {
			return false
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

// reap takes the exit statuses of dead children without waiting, and reports
// whether any child is left. Only for when nobody waits for the command any more.
func reap() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
}
