package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processes looks at the processes of this machine. The zero value is ready.
type Processes struct{}

// StartTime returns the start time of a process in clock ticks since boot, 0
// when there is no such process.
func (Processes) StartTime(pid int) uint64 {
	s, err := readStat(pid)
	if err != nil {
		return 0
	}
	return s.start
}

// Alive reports whether the process pid that started at start still runs. A
// zombie does not.
func (Processes) Alive(pid int, start uint64) bool {
	s, err := readStat(pid)
	if err != nil {
		// A process of somebody else may be hidden from /proc; only the kernel's
		// word that there is none ends a hold.
		return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	}
	return s.start == start && s.running()
}

// GroupAlive reports whether any process of the group still runs. Zombies do
// not. leaderStart is the start time of the group's leader.
func (Processes) GroupAlive(group int, leaderStart uint64) bool {
	if errors.Is(unix.Kill(-group, 0), unix.ESRCH) {
		return false
	}
	if s, err := readStat(group); err == nil {
		if s.start != leaderStart {
			// The number of a group is not given out again while the group lives.
			return false
		}
		if s.pgrp == group && s.running() {
			return true
		}
	}
	seen, alive := false, false
	scanProcesses(func(s procStat) {
		if s.pgrp == group {
			seen = true
			alive = alive || s.running()
		}
	})
	return alive || !seen // not seen: hidden from this user, but the kernel says it is there
}

// procStat is the part of /proc/PID/stat that is used here.
type procStat struct {
	pid, ppid, pgrp, session int
	state                    byte
	start                    uint64
}

// running reports whether the process can still do anything.
func (s procStat) running() bool {
	switch s.state {
	case 'X', 'x':
		return false
	case 'Z':
		return otherThreads(s.pid)
	}
	return true
}

// otherThreads reports whether a process whose first thread has ended has
// others that run: it looks like a zombie and is none.
func otherThreads(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err != nil {
			continue
		}
		if s, err := parseStat(text); err == nil && s.state != 'Z' && s.state != 'X' && s.state != 'x' {
			return true
		}
	}
	return false
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// parseStat reads a line "pid (comm) state ppid pgrp ...". comm may hold
// anything, so the fields are counted from its last parenthesis.
func parseStat(text []byte) (procStat, error) {
	const startField = 22 - 3 // the fields are numbered from 1, and state is the third
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return procStat{}, fmt.Errorf("process status %q has no name in parentheses", text)
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= startField || len(fields[0]) != 1 {
		return procStat{}, fmt.Errorf("process status %q has too few fields", text)
	}
	s := procStat{state: fields[0][0]}
	var errs [5]error
	s.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	s.ppid, errs[1] = strconv.Atoi(string(fields[1]))
	s.pgrp, errs[2] = strconv.Atoi(string(fields[2]))
	s.session, errs[3] = strconv.Atoi(string(fields[3]))
	s.start, errs[4] = strconv.ParseUint(string(fields[startField]), 10, 64)
	return s, errors.Join(errs[:]...)
}

// scanProcesses calls f for each process that can be seen. Those that end
// meanwhile are left out.
func scanProcesses(f func(procStat)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil && len(names) == 0 {
		return
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			f(s)
		}
	}
}
