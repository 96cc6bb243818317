package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxLine bounds one line of the pipes, in bytes. The longest is the hello with
// the drawn tree.
const maxLine = 64 << 10

// The kinds of lines from a worker to the judge.
const (
	kindHello  = "hello"  // the node runs; carries Root and Tree
	kindFailed = "failed" // the node cannot run, or had to stop; carries Error
	kindEnter  = "enter"  // has the lock; waits for orderEntered
	kindRenew  = "renew"  // still has it, with a later deadline
	kindLeave  = "leave"  // about to unlock; waits for orderLeft
	kindStats  = "stats"  // only the counters, which every line may carry
	kindBye    = "bye"    // ended as ordered
)

// report is one line from a worker to the judge. Moments are readings of
// CLOCK_BOOTTIME in nanoseconds.
type report struct {
	Kind      string        `json:"kind"`
	Seq       uint64        `json:"seq,omitempty"`
	Call      time.Duration `json:"call_ns,omitempty"`
	Had       time.Duration `json:"had_ns,omitempty"`
	Deadline  time.Duration `json:"deadline_ns,omitempty"`
	Counters  *counters     `json:"counters,omitempty"`
	Root      string        `json:"root,omitempty"`
	Tree      string        `json:"tree,omitempty"`
	Error     string        `json:"error,omitempty"`
	PortTaken bool          `json:"port_taken,omitempty"`
}

// counters are what one node has sent since its start.
type counters struct {
	LockMessages uint64 `json:"lock_messages"`
	KeepAlives   uint64 `json:"keepalives"`
}

func (c counters) plus(d counters) counters {
	return counters{LockMessages: c.LockMessages + d.LockMessages, KeepAlives: c.KeepAlives + d.KeepAlives}
}

// minus is zero where d is the larger one: d may be read later than c.
func (c counters) minus(d counters) counters {
	return counters{
		LockMessages: c.LockMessages - min(c.LockMessages, d.LockMessages),
		KeepAlives:   c.KeepAlives - min(c.KeepAlives, d.KeepAlives),
	}
}

// The kinds of lines from the judge to a worker.
const (
	orderStart   = "start"   // carries Worker
	orderGo      = "go"      // all processes run: begin
	orderEntered = "entered" // answers kindEnter
	orderLeft    = "left"    // answers kindLeave
	orderStop    = "stop"    // finish the hold, close the node, say kindBye
)

// order is one line from the judge to a worker.
type order struct {
	Kind   string        `json:"kind"`
	Seq    uint64        `json:"seq,omitempty"`
	Worker *workerConfig `json:"worker,omitempty"`
}

// workerConfig is all that a worker needs to know. It goes through the pipe, so
// that the list of processes of the machine stays readable.
type workerConfig struct {
	Name    string   `json:"name"`
	Cluster string   `json:"cluster"` // unique, so that two demos never mix
	Lock    string   `json:"lock"`
	Peers   []string `json:"peers"` // name=host:port
	Seed    uint64   `json:"seed"`
	Number  int      `json:"number"` // of the process; with Seed it decides the pauses
	Break   bool     `json:"break"`  // work without the lock: the proof that the judge sees it
}

// lineWriter writes values as JSON, one a line, from any goroutine.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line of the pipe: %w", err)
	}
	if len(line) >= maxLine {
		return fmt.Errorf("a line of %d bytes is too long for the pipe, at most %d fit", len(line), maxLine)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the pipe: %w", err)
	}
	return nil
}

// readLines calls each with every line until the end of r, or until a line is no
// JSON of type T, or too long. It returns nil at the end of r.
func readLines[T any](r io.Reader, each func(T)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("line %.100q of the pipe: %w", lines.Text(), err)
		}
		each(v)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the pipe: %w", err)
	}
	return nil
}
