package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Client asks the agent at one address. Its methods may be called by several
// goroutines.
type Client struct {
	addr   string
	clock  func() time.Duration
	bootID string
	http   *http.Client
}

// UnreachableError says that no agent answers at an address.
type UnreachableError struct {
	Addr   string
	Err    error         // nil when Silent is set
	Silent time.Duration // how long nothing came on a connection that was accepted
}

// Error names the address.
func (e *UnreachableError) Error() string {
	if e.Silent > 0 {
		return fmt.Sprintf("no agent answers at %s within %v: it is stopped or overloaded, "+
			"or another program listens there (is it the members' port?)", e.Addr, e.Silent)
	}
	return fmt.Sprintf("no agent answers at %s: %v", e.Addr, e.Err)
}

// Unwrap returns the network's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// NewClient returns a client of the agent at addr (host:port). Deadlines are told
// as readings of clock, whose boot has bootID (empty: unknown).
func NewClient(addr string, clock func() time.Duration, bootID string) *Client {
	const dialTimeout = 5 * time.Second
	return &Client{
		addr: addr, clock: clock, bootID: bootID,
		http: &http.Client{
			Transport: &http.Transport{ // no proxy: the agent is on this machine
				DialContext:        (&net.Dialer{Timeout: dialTimeout}).DialContext,
				DisableKeepAlives:  true,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Hold is one hold as its caller sees it. Next is for one goroutine, the rest for
// any.
type Hold struct {
	client *Client
	cancel context.CancelFunc
	answer *http.Response
	lines  *lineReader

	sending sync.Mutex // one line at a time
	body    *io.PipeWriter

	mu       sync.Mutex
	pings    uint64
	sent     [pingsKept]time.Duration // when ping n was sent, at n modulo the length
	deadline time.Duration
}

// pingsKept bounds the pings that are not answered yet. One that is answered
// later than this many others is of no use.
const pingsKept = 64

// Group is a process group and, when Guard is not 0, the process that guards it.
type Group struct {
	ID          int
	LeaderStart uint64
	Guard       int
	GuardStart  uint64
}

// Lock asks for the lock. It returns once the agent has taken the request in;
// what comes of it is told by Next; that takes 10 s at most, and 5 s longer than
// the wait that hello allows. The end of ctx ends the request, at any time.
// The error is an *UnreachableError, or an *Error of the agent.
func (c *Client) Lock(ctx context.Context, name string, hello Hello) (*Hold, error) {
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	target := url.URL{Scheme: "http", Host: c.addr, Path: locksPath + name, RawPath: locksPath + escapeSegment(name)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), reader)
	if err != nil {
		cancel()
		return nil, &UnreachableError{Addr: c.addr, Err: err}
	}
	h := &Hold{client: c, cancel: cancel, body: writer}
	h.sent[0] = c.clock()
	go func() { _ = h.send(hello) }() // if it fails, so does the request
	silence := answerTimeout(hello)
	timer := time.AfterFunc(silence, func() {
		cancel()
		_ = reader.CloseWithError(context.DeadlineExceeded) // the request waits for whoever writes its body
	})
	h.answer, err = c.http.Do(request) // Close closes its body
	if err == nil {
		h.lines = newLineReader(h.answer.Body, MaxResponseLine)
		if h.answer.StatusCode == http.StatusOK && timer.Stop() {
			return h, nil
		}
		err = h.refused() // the timer still bounds the reading
		_ = h.answer.Body.Close()
	}
	onTime := timer.Stop()
	cancel()
	_ = reader.CloseWithError(context.Canceled)
	if failure, ok := errors.AsType[*Error](err); ok {
		return nil, failure
	}
	if !onTime {
		return nil, &UnreachableError{Addr: c.addr, Silent: silence}
	}
	return nil, &UnreachableError{Addr: c.addr, Err: plainError(err)}
}

// answerTimeout is how long an agent may take to take a request in.
func answerTimeout(hello Hello) time.Duration {
	const longest, beyond = 10 * time.Second, 5 * time.Second
	switch {
	case hello.Try:
		return beyond
	case hello.WaitMS != nil:
		return min(longest, time.Duration(min(*hello.WaitMS, longest.Milliseconds()))*time.Millisecond+beyond)
	}
	return longest
}

// escapeSegment escapes a lock's name so that it is one segment of a path, also
// when it is one that paths give a meaning to.
func escapeSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// plainError takes off what net/http puts around an error.
func plainError(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// refused reads the failure of an answer without states.
func (h *Hold) refused() error {
	text, err := io.ReadAll(io.LimitReader(h.answer.Body, MaxResponseLine))
	failure := &Error{}
	if err == nil && json.Unmarshal(text, failure) == nil && failure.Code != "" {
		return failure
	}
	return fmt.Errorf("what answers there is no agent of this version: %s %.80q", h.answer.Status, text)
}

// Next blocks until the agent tells a state, and returns an error when the
// connection has ended.
func (h *Hold) Next() (State, error) {
	var state State
	if err := h.lines.next(&state); err != nil {
		return State{}, err
	}
	if state.State == KindHeld {
		h.held(state)
	}
	return state, nil
}

// Deadline returns until when, on the client's clock, the lock is held for
// certain, as far as Next has heard. It only moves up.
func (h *Hold) Deadline() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// Remaining returns for how long the lock is held for certain, as far as Next has
// heard; negative when that is over.
func (h *Hold) Remaining() time.Duration { return h.Deadline() - h.client.clock() }

// held notes a deadline. The agent's reading counts as it is when both clocks are
// the same one; that also shows in the agent having written it after the ping
// that it names and before now. Otherwise the time left counts from that ping.
func (h *Hold) held(state State) {
	now := h.client.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if state.Ping > h.pings || state.Ping+pingsKept <= h.pings {
		return // a ping that was never sent, or so old that its time is gone
	}
	sent := h.sent[state.Ping%pingsKept]
	deadline := sent + time.Duration(state.RemainingNS)
	written := time.Duration(state.DeadlineNS - state.RemainingNS)
	if state.BootID != "" && state.BootID == h.client.bootID && sent <= written && written <= now {
		deadline = time.Duration(state.DeadlineNS)
	}
	h.deadline = max(h.deadline, deadline)
}

// Ping tells the agent that this caller lives. It blocks while the agent does not
// read.
func (h *Hold) Ping() error {
	h.sending.Lock()
	defer h.sending.Unlock()
	h.mu.Lock()
	h.pings++
	n := h.pings
	h.sent[n%pingsKept] = h.client.clock()
	h.mu.Unlock()
	return h.sendLocked(Update{Ping: n})
}

// Group names the process group that will work under the lock, see [Update]. It
// must not start before Next told KindGrouped.
func (h *Hold) Group(g Group) error {
	return h.send(Update{Group: g.ID, GroupLeaderStart: g.LeaderStart, Guard: g.Guard, GuardStart: g.GuardStart})
}

// Release ends the hold or the wait; Next tells when that is done.
func (h *Hold) Release() error { return h.send(Update{Release: true}) }

// Close ends the connection, which releases nothing by itself.
func (h *Hold) Close() {
	h.cancel()
	_ = h.body.Close()
	_ = h.answer.Body.Close()
}

func (h *Hold) send(v any) error {
	h.sending.Lock()
	defer h.sending.Unlock()
	return h.sendLocked(v)
}

func (h *Hold) sendLocked(v any) error {
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(v); err != nil {
		return err
	}
	_, err := h.body.Write(line.Bytes())
	return err
}
