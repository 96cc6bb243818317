package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// sampleRun is a fleet and a judge at the end of a small run in which all is well.
func sampleRun(t *testing.T) (*fleet, *judge) {
	t.Helper()
	f := newFleet(nil, nil, workerConfig{})
	for i, name := range []string{"n1", "n2", "n3", "n2"} {
		f.procs = append(f.procs, &proc{
			process: &process{pid: 100 + i}, number: i, name: name, acquired: 1, bye: true, gone: true,
			base: counters{LockMessages: 10, KeepAlives: 100}, sent: counters{LockMessages: 16, KeepAlives: 125},
		})
	}
	f.procs[1].bye, f.procs[1].killed = false, true
	j := newJudge()
	for i := range f.procs {
		had := time.Duration(i) * 10 * time.Millisecond
		h := hold{Process: i, Seq: 1, Call: had - 5*time.Millisecond, Had: had, Entered: had + time.Millisecond, Deadline: had + time.Second}
		if err := j.enter(h); err != nil {
			t.Fatal(err)
		}
		if err := j.leave(i, 1, h.Deadline, had+7*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	return f, j
}

func TestResultJSON(t *testing.T) {
	f, j := sampleRun(t)
	r := conclude(&Config{Nodes: 3, Seed: 42}, f, j, 8*time.Second, nil)
	r.Killed, r.Restarted = "n2", "n2"
	var out bytes.Buffer
	if err := r.writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"nodes":3,"seconds":8,"acquisitions":4,"handovers":3,"overlaps":0,"expired":0,"messages_per_lock":6,` +
		`"keepalives_per_s":12.5,"handover_ms":{"p50":4,"p99":4},"acquire_ms":{"p50":5,"p99":5},"killed":"n2","restarted":"n2",` +
		`"per_node":{"n1":1,"n2":2,"n3":1},"seed":42,"ok":true,"failures":[]}` + "\n"
	if out.String() != want {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*fleet, *judge)
		told  []string
		says  string // nothing: no failure
	}{
		{"all well", func(*fleet, *judge) {}, nil, ""},
		{"an overlap", func(_ *fleet, j *judge) { j.overlaps, j.first = 1, meeting{process: 0, other: 2} }, nil, "n1 had the lock while n3"},
		{"the killed one never had it", func(f *fleet, _ *judge) { f.procs[1].acquired = 0 }, nil, ""},
		{"a live one never had it", func(f *fleet, _ *judge) { f.procs[2].acquired = 0 }, nil, "n3"},
		{"the restarted one never had it", func(f *fleet, _ *judge) { f.procs[3].acquired = 0 }, nil, "n2, process 103"},
		{"nobody had it", func(_ *fleet, j *judge) { *j = *newJudge() }, nil, "no process"},
		{"trouble on the way", func(*fleet, *judge) {}, []string{"n1 did not end"}, "n1 did not end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, j := sampleRun(t)
			tc.spoil(f, j)
			r := conclude(&Config{Nodes: 3}, f, j, time.Second, tc.told)
			err := r.Err()
			if r.OK != (tc.says == "") || errors.Is(err, ErrVerdict) == r.OK {
				t.Fatalf("ok %v, error %v; want a failure: %v", r.OK, err, tc.says != "")
			}
			text := r.text([]string{"n1", "n2", "n3"})
			if !r.OK && (!strings.Contains(err.Error(), tc.says) || !strings.Contains(text, tc.says)) {
				t.Errorf("want %q in the error %q, and in the text\n%s", tc.says, err, text)
			}
			if strings.Contains(text, "PASS") != r.OK || strings.Contains(text, "FAIL") == r.OK {
				t.Errorf("ok %v, but the text is\n%s", r.OK, text)
			}
		})
	}
}
