package runner

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n" // ppid is 1, pgrp 2, session 3, start 4711
	good := map[string]procStat{
		"42 (sh) S" + rest:         {pid: 42, ppid: 1, pgrp: 2, session: 3, state: 'S', start: 4711},
		"42 (a b) c) (d) Z" + rest: {pid: 42, ppid: 1, pgrp: 2, session: 3, state: 'Z', start: 4711},
		"42 (1 2 (3)\n4) R" + rest: {pid: 42, ppid: 1, pgrp: 2, session: 3, state: 'R', start: 4711},
		"42 ()) T" + rest:          {pid: 42, ppid: 1, pgrp: 2, session: 3, state: 'T', start: 4711},
		"7 (x) S -1 -2" + rest[4:]: {pid: 7, ppid: -1, pgrp: -2, session: 3, state: 'S', start: 4711},
	}
	for text, want := range good {
		if got, err := parseStat([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "42", "42 (sh", "42 )sh( S" + rest, "42 (sh) S 1 2 3", "x (sh) S" + rest, "42 (sh) SS" + rest} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
	self, err := readStat(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.ppid != os.Getppid() || !self.running() || self.start == 0 {
		t.Errorf("this process is %+v, %v", self, err)
	}
}

func TestIsBelow(t *testing.T) {
	parents := map[int]int{10: 1, 11: 10, 12: 11, 20: 1, 30: 31, 31: 30, 40: 41}
	for pid, want := range map[int]bool{11: true, 12: true, 10: false, 20: false, 30: false, 40: false, 99: false} {
		if got := isBelow(pid, 10, parents); got != want {
			t.Errorf("%d below 10: %v, want %v", pid, got, want)
		}
	}
}
