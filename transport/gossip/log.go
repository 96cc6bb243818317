package gossip

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"
)

// Bounds of what one node logs about gossip: a stranger who sends garbage must not
// be able to fill the disk.
const (
	maxLogLine  = 512
	logPeriod   = 10 * time.Second
	linesPeriod = 40 // lines in one period, and as many again at debug
)

// logWriter passes memberlist's lines and our own on to a logrus logger.
type logWriter struct {
	to logrus.FieldLogger // nil: silent

	mu      sync.Mutex // leaf
	began   time.Time  // of the current period
	debugs  int
	warns   int
	dropped int
	stopped bool
}

func newLogWriter(to logrus.FieldLogger) *logWriter { return &logWriter{to: to} }

// Write takes one line of memberlist's. It never fails.
func (w *logWriter) Write(line []byte) (int, error) {
	n := len(line)
	if w.to == nil {
		return n, nil
	}
	level, rest, ok := bytes.Cut(line, []byte("] "))
	if !ok {
		level, rest = nil, line
	}
	switch string(level) {
	case "[WARN", "[ERR", "[ERROR":
		w.emit(true, string(rest[:min(len(rest), maxLogLine)]))
	default:
		w.emit(false, string(rest[:min(len(rest), maxLogLine)]))
	}
	return n, nil
}

// stop silences the writer: what memberlist says of being shut down is no news.
func (w *logWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

func (w *logWriter) debugf(format string, args ...any) {
	if w.to != nil {
		w.emit(false, fmt.Sprintf(format, args...))
	}
}

func (w *logWriter) warnf(format string, args ...any) {
	if w.to != nil {
		w.emit(true, fmt.Sprintf(format, args...))
	}
}

func (w *logWriter) emit(warn bool, line string) {
	allowed, dropped := w.admit(warn)
	if dropped > 0 {
		w.to.Warnf("gossip: %d log lines left out in the last period, there were too many", dropped)
	}
	if !allowed {
		return
	}
	line = cleanLine(line)
	if warn {
		w.to.Warn(line)
		return
	}
	w.to.Debug(line)
}

// admit counts a line. It returns how many were dropped when a period ended with
// some missing.
func (w *logWriter) admit(warn bool) (allowed bool, dropped int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false, 0
	}
	if now.Sub(w.began) >= logPeriod {
		dropped = w.dropped
		w.began, w.debugs, w.warns, w.dropped = now, 0, 0, 0
	}
	count := &w.debugs
	if warn {
		count = &w.warns
	}
	if *count >= linesPeriod {
		if warn {
			w.dropped++
		}
		return false, dropped
	}
	*count++
	return true, dropped
}

// cleanLine cuts a line to length and keeps what strangers sent from drawing on a
// terminal or looking like a second line.
func cleanLine(line string) string {
	line = strings.TrimRight(line, "\n")
	line = line[:min(len(line), maxLogLine)]
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, line)
}
