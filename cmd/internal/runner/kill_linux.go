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

// killAll sends KILL to the group and to every descendant of this process, in
// whatever group or session, and returns how many still run. What forks
// meanwhile is met by the next call.
func killAll(group int) int {
	_ = unix.Kill(-group, unix.SIGKILL)
	living := descendants(group)
	for _, pid := range living {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return len(living)
}

// descendants returns the running members of the group and the running
// descendants of this process, those below a zombie included.
func descendants(group int) []int {
	parents := make(map[int]int)
	var living []int
	inGroup := make(map[int]bool)
	scanProcesses(func(s procStat) {
		parents[s.pid] = s.ppid
		if s.running() {
			living = append(living, s.pid)
		}
		inGroup[s.pid] = s.pgrp == group
	})
	self := os.Getpid()
	return slices.DeleteFunc(living, func(pid int) bool {
		if pid == self {
			return true
		}
		if inGroup[pid] {
			return false
		}
		return !isBelow(pid, self, parents)
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

// reap takes the exit statuses of dead children without waiting. Only for when
// nobody waits for the command any more.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if (err != nil && !errors.Is(err, unix.EINTR)) || pid == 0 {
			return
		}
	}
}
