package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// How long a client may take for what it sends at once.
const (
	headerTimeout = 5 * time.Second
	helloTimeout  = 5 * time.Second
	idleTimeout   = time.Minute
)

// ServerConfig says what a server serves. All fields but MaxHolds must be set.
type ServerConfig struct {
	Node      Node
	TTL       time.Duration        // T, the length of a lease
	Clock     func() time.Duration // the clock of Lease.BootDeadline
	BootID    string               // of that clock; empty: unknown
	Processes Processes
	MaxHolds  int // 0: MaxHolds
	Log       logrus.FieldLogger
}

// Server is the HTTP interface of one node.
type Server struct {
	cfg     ServerConfig
	http    *http.Server
	closing chan struct{} // closed when the server shuts down

	mu     sync.Mutex
	closed bool
	holds  int
	idle   chan struct{} // closed when closed and no hold is left
}

// NewServer returns a server that serves nothing yet.
func NewServer(cfg ServerConfig) *Server {
	if cfg.MaxHolds == 0 {
		cfg.MaxHolds = MaxHolds
	}
	s := &Server{cfg: cfg, closing: make(chan struct{}), idle: make(chan struct{})}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(logWriter{cfg.Log}, "", 0),
	}
	return s
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+locksPath+"{name...}", s.lock)
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	return guard(mux)
}

// Serve answers requests until Shutdown, and returns nil after it.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(limitConns(listener, s.cfg.MaxHolds+maxExtraConns))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown takes no new holds, asks the callers to end, and blocks until each
// hold was released, its processes are dead, or the deadline that its caller was
// told last has passed; that is a lease's length at most. Then it ends all
// connections. The end of ctx cuts that short, for locks that may still be in use.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		s.wakeIdle()
	}
	s.mu.Unlock()
	var err error
	select {
	case <-s.idle:
	case <-ctx.Done():
		err = fmt.Errorf("holds were still there when the time for closing was over: %w", ctx.Err())
	}
	const lastAnswers = time.Second
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if s.http.Shutdown(last) != nil { // some client does not read its answer
		_ = s.http.Close()
	}
	return err
}

// enter counts a hold in, unless there are too many or the server shuts down.
func (s *Server) enter() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &Error{Code: CodeClosed, Message: "the agent is shutting down"}
	case s.holds >= s.cfg.MaxHolds:
		return &Error{Code: CodeOverloaded, Message: fmt.Sprintf("the agent has %d holds and waits, its limit; try again later", s.holds)}
	}
	s.holds++
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds--
	s.wakeIdle()
}

func (s *Server) wakeIdle() {
	if !s.closed || s.holds > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// lockName returns the lock that a path names. It reads the path as it came: the
// wildcard of a pattern does not tell "%2F" from "/", and a name may be just that.
func lockName(r *http.Request) (string, bool) {
	segment := strings.TrimPrefix(r.URL.EscapedPath(), locksPath)
	name, err := url.PathUnescape(segment)
	return name, err == nil && name != "" && !strings.Contains(segment, "/")
}

// lock serves one hold.
func (s *Server) lock(w http.ResponseWriter, r *http.Request) {
	name, ok := lockName(r)
	if !ok {
		refuse(w, http.StatusNotFound, badRequest("the path must be %s and the name of a lock, as one escaped segment", locksPath))
		return
	}
	if failure := s.enter(); failure != nil {
		refuse(w, http.StatusServiceUnavailable, failure)
		return
	}
	defer s.leave()
	control := http.NewResponseController(w)
	now := time.Now()
	err := errors.Join(control.EnableFullDuplex(), control.SetReadDeadline(now.Add(helloTimeout)),
		control.SetWriteDeadline(now.Add(helloTimeout+headerTimeout)))
	if err != nil {
		refuse(w, http.StatusInternalServerError, &Error{Code: CodeInternal, Message: err.Error()})
		return
	}
	w.Header().Set("Connection", "close")
	lines := newLineReader(r.Body, MaxRequestLine)
	var hello Hello
	if err = lines.next(&hello); err == nil {
		err = hello.check()
	}
	if err != nil {
		status, failure := refusal(err)
		refuse(w, status, failure)
		return
	}
	if control.SetReadDeadline(time.Time{}) != nil {
		return // the connection is gone
	}
	header(w, "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return
	}
	newSession(s, r, name, hello, lines, &lineWriter{w: w, control: control}).run(r.Context())
}

// check reports a wish that cannot be meant.
func (h *Hello) check() error {
	switch {
	case h.WaitMS != nil && *h.WaitMS < 0:
		return badRequest("wait_ms is %d; leave it out to wait for ever", *h.WaitMS)
	case h.Try && h.WaitMS != nil:
		return badRequest("try and wait_ms exclude each other")
	case h.PID < 0 || h.PID == 1:
		return badRequest("pid %d is no caller's", h.PID)
	}
	return nil
}

// refusal says how to answer a first line that cannot be used.
func refusal(err error) (int, *Error) {
	var failure *Error
	var malformed *malformedError
	switch {
	case errors.As(err, &failure):
		return http.StatusBadRequest, failure
	case errors.Is(err, errLineTooLong):
		return http.StatusRequestEntityTooLarge, badRequest("%v", err)
	case errors.As(err, &malformed):
		return http.StatusBadRequest, badRequest("%v", err)
	case errors.Is(err, io.EOF):
		return http.StatusBadRequest, badRequest(`the body is empty; its first line says what is wanted, {} at least`)
	}
	return http.StatusRequestTimeout, badRequest("no first line within %v: %v", helloTimeout, err)
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	status := s.cfg.Node.Status()
	if err := s.cfg.Node.Ready(); err != nil {
		status.Reason = err.Error()
	} else {
		status.Ready = true
	}
	s.mu.Lock()
	status.Holds = s.holds
	s.mu.Unlock()
	answer(w, http.StatusOK, status)
}

// health answers while the process can answer at all.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready answers 503, with the reason, while the node cannot get locks.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	var err error
	select {
	case <-s.closing:
		err = errors.New("the agent is shutting down")
	default:
		err = s.cfg.Node.Ready()
	}
	if err != nil {
		answer(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ready"})
}

func refuse(w http.ResponseWriter, status int, failure *Error) {
	w.Header().Set("Connection", "close") // what is left of the body is not read
	answer(w, status, failure)
}

func answer(w http.ResponseWriter, status int, v any) {
	header(w, "application/json")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(headerTimeout))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// logWriter passes the HTTP server's own complaints on.
type logWriter struct{ log logrus.FieldLogger }

func (l logWriter) Write(p []byte) (int, error) {
	l.log.Debug("http: " + strings.TrimSpace(string(p)))
	return len(p), nil
}
