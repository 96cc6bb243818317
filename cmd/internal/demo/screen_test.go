package demo

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestScreenPlain(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&Config{Stdout: &out})
	s.holder("n1")
	s.holder("n2")
	s.status(2*time.Second, &judge{acquisitions: 5, handovers: 4}, "n2")
	s.note(3*time.Second, "SIGKILL to %s", "n1")
	want := "  2.0s  5 locks, 4 hand-overs, 0 overlaps  n1 > n2\n  3.0s  SIGKILL to n1\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestScreenTerminalWritesOneLineOver(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&Config{Stdout: &out, Terminal: true})
	for i := range 20 {
		s.holder(fmt.Sprintf("n%06d", i))
	}
	if len(s.chain) != chainLength {
		t.Errorf("%d holders are kept, want %d", len(s.chain), chainLength)
	}
	s.status(2*time.Second, &judge{acquisitions: 5, handovers: 4}, "n2")
	s.chain = nil
	s.status(2*time.Second, &judge{acquisitions: 5, handovers: 4}, "n2")
	s.note(3*time.Second, "SIGKILL")
	lines := strings.Split(strings.TrimPrefix(out.String(), "\r"), "\r")
	for _, l := range lines {
		if len(l) > statusWidth {
			t.Errorf("%q is %d wide, want at most %d", l, len(l), statusWidth)
		}
	}
	if !strings.HasSuffix(lines[0], " > n000019") {
		t.Errorf("%q does not end with the latest holder", lines[0])
	}
	if len(lines) != 4 || len(lines[0]) != len(lines[1]) || strings.TrimSpace(lines[2]) != "" || lines[3] != "  3.0s  SIGKILL\n" {
		t.Errorf("got %q; want a long status, a short one as wide, blanks, the note", lines)
	}
}

func TestScreenIsEmptyWithJSON(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&Config{Stdout: &out, JSON: true, Terminal: true})
	s.print("text")
	s.note(0, "note")
	s.status(0, newJudge(), "")
	if out.Len() > 0 {
		t.Errorf("printed %q, want nothing but the JSON object that comes at the end", out.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestScreenRemembersAFailedWrite(t *testing.T) {
	s := newScreen(&Config{Stdout: fullDisk{}})
	s.print("text")
	if s.err == nil || !strings.Contains(s.err.Error(), "disk full") {
		t.Errorf("the error is %v, want disk full", s.err)
	}
}
