package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Result is what a demo has shown. Its JSON form is what --json prints.
type Result struct {
	Nodes           int            `json:"nodes"`
	Seconds         float64        `json:"seconds"`      // from the first lock to the order to stop
	Acquisitions    int            `json:"acquisitions"` // enters that the judge saw
	Handovers       int            `json:"handovers"`    // enters by another process than the one before
	Overlaps        int            `json:"overlaps"`     // enters while another process had the lock
	Expired         int            `json:"expired"`      // holds that were not over at their deadline
	MessagesPerLock float64        `json:"messages_per_lock"`
	KeepalivesPerS  float64        `json:"keepalives_per_s"`
	HandoverMS      Quantiles      `json:"handover_ms"` // from one's leave to the enter of the next, who waited
	AcquireMS       Quantiles      `json:"acquire_ms"`  // from the call of Lock to its return
	Killed          string         `json:"killed"`      // name of the process
	Restarted       string         `json:"restarted"`   // name of the process
	PerNode         map[string]int `json:"per_node"`    // acquisitions; a name's processes together
	Seed            uint64         `json:"seed"`
	OK              bool           `json:"ok"`
	Failures        []string       `json:"failures"` // why not OK, in words
}

// Err returns nil when the demo saw what a lock promises, else an error that
// matches ErrVerdict and says what was seen.
func (r *Result) Err() error {
	if r.OK {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrVerdict, strings.Join(r.Failures, "; "))
}

// conclude draws up the result once all processes are gone. Trouble is what else
// the verdict must not pass over.
func conclude(cfg *Config, f *fleet, j *judge, seconds time.Duration, trouble []string) *Result {
	r := &Result{
		Nodes: cfg.Nodes, Seconds: round(seconds.Seconds(), 3), Seed: cfg.Seed,
		Acquisitions: j.acquisitions, Handovers: j.handovers, Overlaps: j.overlaps, Expired: j.expired,
		HandoverMS: quantiles(handoverTimes(j.past)),
		AcquireMS:  quantiles(acquireTimes(j.past)),
		PerNode:    make(map[string]int, cfg.Nodes),
		Failures:   []string{},
	}
	var sent counters
	for _, p := range f.procs {
		sent = sent.plus(p.sent.minus(p.base))
		r.PerNode[p.name] += p.acquired
	}
	if r.Acquisitions > 0 {
		r.MessagesPerLock = round(float64(sent.LockMessages)/float64(r.Acquisitions), 2)
	}
	if r.Seconds > 0 {
		r.KeepalivesPerS = round(float64(sent.KeepAlives)/r.Seconds, 1)
	}
	if r.Overlaps > 0 {
		r.fail("%d overlaps: first, %s had the lock while %s still had it",
			r.Overlaps, f.procs[j.first.process].name, f.procs[j.first.other].name)
	}
	if r.Acquisitions == 0 {
		r.fail("no process ever had the lock")
	}
	for _, p := range f.procs {
		if p.bye && p.acquired == 0 {
			r.fail("%s, process %d, lives and never had the lock", p.name, p.pid)
		}
	}
	r.Failures = append(r.Failures, trouble...)
	r.OK = len(r.Failures) == 0
	return r
}

func (r *Result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// writeJSON writes r as one object on one line.
func (r *Result) writeJSON(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("demo: write the result: %w", err)
	}
	return nil
}

// text is r for people.
func (r *Result) text(names []string) string {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-17s "+format+"\n", append([]any{what}, args...)...)
	}
	shares := make([]string, 0, len(names))
	for _, name := range names {
		shares = append(shares, fmt.Sprintf("%s %d", name, r.PerNode[name]))
	}
	row("acquisitions", "%d in %.1f s (%s)", r.Acquisitions, r.Seconds, strings.Join(shares, ", "))
	row("hand-overs", "%d between processes, median %.1f ms, p99 %.1f ms", r.Handovers, r.HandoverMS.P50, r.HandoverMS.P99)
	row("waiting for it", "median %.1f ms, p99 %.1f ms", r.AcquireMS.P50, r.AcquireMS.P99)
	row("messages a lock", "%.1f, and %.0f keep-alives a second, of all nodes together", r.MessagesPerLock, r.KeepalivesPerS)
	row("killed, restarted", "%s, %s", r.Killed, r.Restarted)
	if r.Expired > 0 {
		row("expired", "%d holds were not over at their deadline: no longer counted as holds from then on", r.Expired)
	}
	row("overlaps", "%d", r.Overlaps)
	if r.OK {
		b.WriteString("\nPASS: never two processes inside at once, and every live process had the lock\n")
	} else {
		fmt.Fprintf(&b, "\nFAIL: %s\n", strings.Join(r.Failures, "\n      "))
	}
	return b.String()
}
