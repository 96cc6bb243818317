package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// How often the status is shown. A terminal's line is written over; a log's
// lines stay, so they are fewer.
const (
	terminalEach = 100 * time.Millisecond
	plainEach    = time.Second // at least
	plainLines   = 60          // at most, in all
	statusWidth  = 79
	chainLength  = 8 // holders shown
)

// screen shows people how the demo goes. One goroutine uses it.
type screen struct {
	w        io.Writer
	terminal bool
	every    time.Duration // plain lines
	shown    int           // width of the status line now on the terminal
	chain    []string      // latest holders
	err      error         // of the first write that failed
}

// newScreen returns a screen that shows nothing when cfg asks for JSON.
func newScreen(cfg *Config) *screen {
	if cfg.JSON {
		return &screen{w: io.Discard, every: plainEach}
	}
	return &screen{w: cfg.Stdout, terminal: cfg.Terminal, every: max(plainEach, cfg.For/plainLines)}
}

// each is how often status should be called.
func (s *screen) each() time.Duration {
	if s.terminal {
		return terminalEach
	}
	return s.every
}

// holder adds the name of who has the lock now.
func (s *screen) holder(name string) {
	if len(s.chain) == chainLength {
		s.chain = append(s.chain[:0], s.chain[1:]...)
	}
	s.chain = append(s.chain, name)
}

// note shows a line that stays.
func (s *screen) note(elapsed time.Duration, format string, args ...any) {
	s.print(fmt.Sprintf("%s  %s\n", stamp(elapsed), fmt.Sprintf(format, args...)))
}

// print shows text that stays.
func (s *screen) print(text string) {
	s.clear()
	s.write(text)
}

// status shows who had the lock lately, and the judge's counts.
func (s *screen) status(elapsed time.Duration, j *judge, inside string) {
	counts := fmt.Sprintf("%d locks, %d hand-overs, %d overlaps", j.acquisitions, j.handovers, j.overlaps)
	if !s.terminal {
		s.write(fmt.Sprintf("%s  %s  %s\n", stamp(elapsed), counts, strings.Join(s.chain, " > ")))
		return
	}
	head := fmt.Sprintf("%s  inside: %-4s %s  ", stamp(elapsed), inside, counts)
	chain := s.chain // as many of the latest as fit
	for len(chain) > 0 && len(head)+len(strings.Join(chain, " > ")) > statusWidth {
		chain = chain[1:]
	}
	line := head + strings.Join(chain, " > ")
	line = line[:min(len(line), statusWidth)] // names, numbers and inside are ASCII
	width := len(line)
	s.write("\r" + line + strings.Repeat(" ", max(0, s.shown-width)))
	s.shown = width
}

// clear removes the status line of a terminal. Blanks do it on every terminal.
func (s *screen) clear() {
	if s.shown > 0 {
		s.write("\r" + strings.Repeat(" ", s.shown) + "\r")
		s.shown = 0
	}
}

func (s *screen) write(text string) {
	if _, err := io.WriteString(s.w, text); err != nil && s.err == nil {
		s.err = errors.Join(errors.New("demo: cannot write to standard output"), err)
	}
}

func stamp(elapsed time.Duration) string { return fmt.Sprintf("%5.1fs", elapsed.Seconds()) }
