package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	testTTL  = 3 * time.Second
	testBoot = "boot-1"
)

// pipeListener hands out in-memory connections, so that a test runs in the
// virtual time of a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7980} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, errors.New("nobody listens")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fakeProcesses is a table of processes: start times by pid, and living groups.
type fakeProcesses struct {
	mu     sync.Mutex
	starts map[int]uint64
	groups map[int]bool
}

func (p *fakeProcesses) StartTime(pid int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts[pid]
}

func (p *fakeProcesses) Alive(pid int, start uint64) bool { return p.StartTime(pid) == start }

func (p *fakeProcesses) GroupAlive(group int, _ uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups[group]
}

func (p *fakeProcesses) kill(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.starts, pid)
}

func (p *fakeProcesses) killGroup(group int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups[group] = false
}

// fakeLease is a lease that a test moves.
type fakeLease struct {
	mu       sync.Mutex
	deadline time.Duration
	loss     string
	once     sync.Once
	done     chan struct{}
	unlocked chan struct{}
	tokens   chan uint64
}

func newFakeLease(deadline time.Duration) *fakeLease {
	return &fakeLease{
		deadline: deadline, done: make(chan struct{}), unlocked: make(chan struct{}), tokens: make(chan uint64, 1),
	}
}

func (l *fakeLease) Done() <-chan struct{} { return l.done }
func (l *fakeLease) Loss() string          { return l.loss }

func (l *fakeLease) BootDeadline() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *fakeLease) renew(deadline time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = deadline
}

func (l *fakeLease) lose(why string) {
	l.loss = why
	l.once.Do(func() { close(l.done) })
}

func (l *fakeLease) Token(ctx context.Context) (uint64, error) {
	select {
	case token := <-l.tokens:
		return token, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-l.done:
		return 0, errors.New("over")
	}
}

func (l *fakeLease) Unlock(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	close(l.unlocked) // twice would panic
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *fakeLease) isUnlocked() bool {
	select {
	case <-l.unlocked:
		return true
	default:
		return false
	}
}

// fakeCall is a call of Node.Lock that the test answers.
type fakeCall struct {
	ctx     context.Context // what the server passed
	name    string
	options LockOptions
	answer  chan outcome
}

type fakeNode struct {
	calls    chan *fakeCall
	notReady error
	late     Lease // comes when a context ends
}

func (n *fakeNode) Lock(ctx context.Context, name string, options LockOptions) (Lease, error) {
	c := &fakeCall{ctx: ctx, name: name, options: options, answer: make(chan outcome, 1)}
	n.calls <- c
	select {
	case out := <-c.answer:
		return out.lease, out.err
	case <-ctx.Done():
		if n.late != nil {
			return n.late, nil
		}
		return nil, &Error{Code: CodeBusy, Message: ctx.Err().Error()}
	}
}

func (n *fakeNode) Ready() error { return n.notReady }

func (n *fakeNode) Status() Status {
	return Status{Name: "a", TTLMS: testTTL.Milliseconds(), Members: []Member{{Name: "a", Up: true}}, Stats: map[string]uint64{"acquired": 7}}
}

// world is a server and a client in one bubble.
type world struct {
	t         *testing.T
	began     time.Time
	node      *fakeNode
	processes *fakeProcesses
	server    *Server
	listener  *pipeListener
	client    *Client
	callers   []*caller
}

// inWorld runs f in a bubble, and checks that nothing of the server is left.
func inWorld(t *testing.T, maxHolds int, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		w := &world{
			t: t, began: time.Now(), node: &fakeNode{calls: make(chan *fakeCall, 64)}, listener: newPipeListener(),
			processes: &fakeProcesses{starts: map[int]uint64{100: 1, 150: 3, 200: 2}, groups: map[int]bool{200: true}},
		}
		w.server = NewServer(ServerConfig{
			Node: w.node, TTL: testTTL, Clock: w.clock, BootID: testBoot, Processes: w.processes, MaxHolds: maxHolds, Log: log,
		})
		served := make(chan error, 1)
		go func() { served <- w.server.Serve(w.listener) }()
		w.client = NewClient("127.0.0.1:7980", w.clock, testBoot)
		w.client.http.Transport.(*http.Transport).DialContext = w.listener.dial
		f(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), 2*testTTL)
		defer cancel()
		if err := w.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for _, c := range w.callers {
			c.hold.Close()
		}
	})
}

// clock counts from an hour on, so that no reading is near zero.
func (w *world) clock() time.Duration { return time.Hour + time.Since(w.began) }

func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// watched is a hello of a process that the fake table has.
func watched() Hello { return Hello{PID: 100, PIDStart: 1, BootID: testBoot} }

// caller is a client's hold with its states collected.
type caller struct {
	w      *world
	hold   *Hold
	states chan State
}

func (w *world) ask(name string, hello Hello) *caller {
	w.t.Helper()
	hold, err := w.client.Lock(w.t.Context(), name, hello)
	if err != nil {
		w.t.Fatalf("Lock(%q, %+v): %v", name, hello, err)
	}
	c := &caller{w: w, hold: hold, states: make(chan State, 1000)}
	w.callers = append(w.callers, c)
	go func() {
		defer close(c.states)
		for {
			state, err := hold.Next()
			if err != nil {
				return
			}
			c.states <- state
		}
	}()
	return c
}

// held asks and answers with a lease of one TTL.
func (w *world) held(hello Hello) (*caller, *fakeLease) {
	w.t.Helper()
	c := w.ask("nightly", hello)
	lease := newFakeLease(w.clock() + testTTL)
	(<-w.node.calls).answer <- outcome{lease: lease}
	c.want(KindHeld)
	return c, lease
}

// want returns the next state, which must be of this kind.
func (c *caller) want(kind Kind) State {
	c.w.t.Helper()
	state, ok := <-c.states
	if !ok || state.State != kind {
		c.w.t.Fatalf("got state %+v (open: %v), want %q", state, ok, kind)
	}
	return state
}

// wantEnd checks that no further state comes.
func (c *caller) wantEnd() {
	c.w.t.Helper()
	if state, ok := <-c.states; ok {
		c.w.t.Fatalf("got state %+v after the last one", state)
	}
}

// await skips states until one of this kind.
func (c *caller) await(kind Kind) State {
	c.w.t.Helper()
	for state := range c.states {
		if state.State == kind {
			return state
		}
	}
	c.w.t.Fatalf("the stream ended without %q", kind)
	return State{}
}

// renewing moves the lease's deadline on until stop is called.
func (w *world) renewing(lease *fakeLease) (stop func()) {
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(testTTL / 8):
				lease.renew(w.clock() + testTTL)
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit) })
}

// raw sends a request as it is and returns the status and the body.
func (w *world) raw(request string) (int, string) {
	w.t.Helper()
	conn, err := w.listener.dial(w.t.Context(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before it has read all
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatalf("no response to %.80q: %v", request, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("body of the response to %.80q: %v", request, err)
	}
	return response.StatusCode, string(body)
}

// post is a request for a lock with a body of one go.
func post(name, body string, headers ...string) string {
	lines := append([]string{"POST /v1/locks/" + name + " HTTP/1.1", "Host: 127.0.0.1:7980"}, headers...)
	return strings.Join(lines, "\r\n") + "\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}
