//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a line that a command under the lock appended to the journal: what it
// did, under which token, when.
type entry struct {
	word  string // in, tick, out
	who   string
	token uint64
	at    time.Time
}

// worker is a command that writes in, then tick each 20 ms, and out when it is
// told to end, or after so many ticks. Every line is one write that appends, so
// the order in the file is the order of the writes.
func worker(journal, who string, ticks int) []string {
	// A date that is killed together with the command says nothing, so nothing is written.
	script := fmt.Sprintf(`say() { now=$(date +%%s%%N) && echo "$1 %s ${DMUTEX_TOKEN:-0} $now" >>%s; }
trap 'say out; exit 0' TERM
say in
i=0
while [ $i -lt %d ]; do say tick; sleep 0.02; i=$((i+1)); done
say out`, who, journal, ticks)
	return []string{"--", "sh", "-c", script}
}

func readJournal(path string) ([]entry, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("journal line %q: want 4 fields", line)
		}
		token, err := strconv.ParseUint(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("journal line %q: %w", line, err)
		}
		nanos, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("journal line %q: %w", line, err)
		}
		entries = append(entries, entry{f[0], f[1], token, time.Unix(0, nanos)})
	}
	return entries, nil
}

// overlaps counts the lines that somebody wrote after somebody else came in. It is
// the judge of exclusion: in the order of the writes, each worker's lines must be
// one block.
func overlaps(entries []entry) int {
	count, inside := 0, ""
	seen := make(map[string]bool)
	for _, e := range entries {
		if e.who != inside {
			if seen[e.who] {
				count++
				continue
			}
			inside = e.who
			seen[e.who] = true
		}
	}
	return count
}

// refused counts the lines that a resource which checks tokens would refuse: those
// under a lower token than one that it has seen.
func refused(entries []entry, who string) (refused, accepted int) {
	highest := uint64(0)
	over := false // somebody else came in after who
	for _, e := range entries {
		switch {
		case e.token < highest:
			if e.who == who {
				refused++
			}
		default:
			highest = e.token
			if e.who == who && over {
				accepted++
			}
		}
		over = over || e.who != who
	}
	return refused, accepted
}

// last returns the last line of a worker; the zero entry when there is none.
func last(entries []entry, who string) entry {
	for _, e := range slices.Backward(entries) {
		if e.who == who {
			return e
		}
	}
	return entry{}
}

func first(entries []entry, who string) (entry, bool) {
	for _, e := range entries {
		if e.who == who {
			return e, true
		}
	}
	return entry{}, false
}

// count counts the lines of a worker.
func count(entries []entry, who string) int {
	n := 0
	for _, e := range entries {
		if e.who == who {
			n++
		}
	}
	return n
}

// came reports whether a worker has written.
func came(path, who string) func() bool {
	return func() bool {
		entries, err := readJournal(path)
		if err != nil {
			return false // a line is being written
		}
		_, ok := first(entries, who)
		return ok
	}
}
