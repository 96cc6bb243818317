//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// commandOf returns the guard of a running lock, and the command below it, each of
// which leads a process group of its own.
func commandOf(lock int) (guard, command int, err error) {
	if guard, err = childOf(lock); err != nil {
		return 0, 0, err
	}
	command, err = childOf(guard)
	return guard, command, err
}

// childOf returns the pid of a process's only child, from /proc.
func childOf(pid int) (child int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	// Any thread may have started the child.
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return 0, err
		}
		for _, thread := range threads {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
			if err == nil {
				fields = append(fields, strings.Fields(string(text))...)
			}
		}
	}
	if len(fields) != 1 {
		return 0, fmt.Errorf("process %d has the children %v, want one", pid, fields)
	}
	return strconv.Atoi(fields[0])
}
