//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestJudgeOfExclusionCanFail(t *testing.T) {
	for _, c := range []struct {
		name string
		who  string
		want int
	}{
		{"one after the other", "aaabbbcc", 0},
		{"a line of a while b is in", "aababb", 1},
		{"interleaved", "ababab", 2},
	} {
		var entries []entry
		for _, w := range c.who {
			entries = append(entries, entry{word: "tick", who: string(w)})
		}
		if got := overlaps(entries); got != c.want {
			t.Errorf("%s: %d overlaps, want %d", c.name, got, c.want)
		}
	}
}

func TestJudgeOfTokensCanFail(t *testing.T) {
	late := func(token uint64) []entry {
		return []entry{{who: "a", token: 5}, {who: "b", token: 6}, {who: "a", token: token}}
	}
	if refused, accepted := refused(late(5), "a"); refused != 1 || accepted != 0 {
		t.Errorf("late write under the old token: refused %d, accepted %d; want 1, 0", refused, accepted)
	}
	if refused, accepted := refused(late(7), "a"); refused != 0 || accepted != 1 {
		t.Errorf("late write under a higher token: refused %d, accepted %d; want 0, 1", refused, accepted)
	}
}

func TestReadJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	if entries, err := readJournal(path); err != nil || len(entries) != 0 {
		t.Errorf("no file: %v, %v; want nothing", entries, err)
	}
	if err := os.WriteFile(path, []byte("in a 7 1000000000\nout a 7 2000000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := readJournal(path)
	if err != nil || len(entries) != 2 || entries[0].token != 7 || entries[1].at.Unix() != 2 {
		t.Errorf("entries %v, %v", entries, err)
	}
	if err := os.WriteFile(path, []byte("in a seven 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readJournal(path); err == nil {
		t.Error("a token that is no number: no error")
	}
}
