//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// childOf returns the process group of a process's only child, from /proc.
func childOf(pid int) (group int, err error) {
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
