package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
)

// session is one request for one lock, from the wish to the end. Its fields
// belong to the goroutine of run.
type session struct {
	server *Server
	cfg    *ServerConfig
	log    logrus.FieldLogger
	name   string
	hello  Hello
	out    *lineWriter

	updates <-chan Update   // what the caller says
	faults  <-chan *Error   // what it must not say; then nothing more comes
	gone    <-chan struct{} // closed when the connection has ended
	closing <-chan struct{} // closed when the server shuts down

	watched  bool          // the caller's processes can be seen
	ping     uint64        // the last ping; 0: the hello
	lastPing time.Duration // when it came
}

// newSession starts the goroutine that reads the caller's lines; it ends with the
// request.
func newSession(s *Server, r *http.Request, name string, hello Hello, lines *lineReader, out *lineWriter) *session {
	updates := make(chan Update)
	faults := make(chan *Error, 1)
	gone := make(chan struct{})
	go func() {
		if fault := readUpdates(r.Context(), lines, updates); fault != nil {
			faults <- fault
			return
		}
		close(gone)
	}()
	return &session{
		server: s, cfg: &s.cfg, log: s.cfg.Log.WithField("lock", name), name: name, hello: hello, out: out,
		updates: updates, faults: faults, gone: gone, closing: s.closing,
		watched: s.sees(hello), lastPing: s.cfg.Clock(),
	}
}

// sees reports whether the caller is a process of this machine, visible from
// here: in another PID namespace the same number is another process.
func (s *Server) sees(hello Hello) bool {
	return hello.PID != 0 && hello.BootID != "" && hello.BootID == s.cfg.BootID &&
		hello.PIDStart != 0 && s.cfg.Processes.StartTime(hello.PID) == hello.PIDStart
}

// readUpdates passes the caller's lines on until the connection ends (nil), or a
// line is wrong. A body that ends leaves the connection open.
func readUpdates(ctx context.Context, lines *lineReader, updates chan<- Update) *Error {
	for {
		var u Update
		err := lines.next(&u)
		if err == nil {
			err = wrapBad(u.check())
		}
		var failure *Error
		var malformed *malformedError
		switch {
		case err == nil:
		case errors.As(err, &failure):
			return failure
		case errors.As(err, &malformed), errors.Is(err, errLineTooLong):
			return badRequest("%v", err)
		case errors.Is(err, io.EOF):
			<-ctx.Done()
			return nil
		default:
			return nil
		}
		select {
		case updates <- u:
		case <-ctx.Done():
			return nil
		}
	}
}

func wrapBad(err error) error {
	if err == nil {
		return nil
	}
	return badRequest("%v", err)
}

// run serves the request to its end.
func (s *session) run(ctx context.Context) {
	// The connection's end must not end a hold: ctx only carries values from here.
	if lease := s.acquire(context.WithoutCancel(ctx)); lease != nil {
		newHold(s, lease).keep()
	}
}

// outcome is what a call of Node.Lock returned.
type outcome struct {
	lease Lease
	err   error
}

// acquire waits for the lock and tells how it goes. It returns nil when there is
// nothing to hold; the caller knows then.
func (s *session) acquire(ctx context.Context) Lease {
	ctx, cancel := s.limitWait(ctx)
	defer cancel()
	waiting := make(chan Waiting, 1)
	result := make(chan outcome, 1)
	go func() {
		lease, err := s.cfg.Node.Lock(ctx, s.name, LockOptions{
			Try: s.hello.Try, Label: s.hello.Label, Waiting: latest(waiting),
		})
		result <- outcome{lease, err}
	}()
	var last *State // set once the wait is over early: what to tell the caller
	giveUp := func(state State) {
		if last == nil {
			last = &state
		}
		cancel()
	}
	gone := s.gone
	for {
		select {
		case out := <-result:
			return s.acquired(ctx, out, last)
		case w := <-waiting:
			s.out.write(State{
				State: KindWaiting, Ahead: w.Ahead, Holder: w.Holder,
				SinceMS: w.Since.Milliseconds(), Missing: w.Missing, Starting: w.Starting,
			})
		case u := <-s.updates:
			s.onUpdate(u, giveUp)
		case fault := <-s.faults:
			giveUp(fault.state())
		case <-gone:
			gone = nil
			giveUp(State{State: KindReleased})
		case <-s.closing:
			s.closing = nil
			giveUp((&Error{Code: CodeClosed, Message: "the agent is shutting down"}).state())
		}
	}
}

// limitWait returns the context of the wait.
func (s *session) limitWait(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.hello.WaitMS == nil {
		return context.WithCancel(ctx)
	}
	const longest = 365 * 24 * time.Hour // more would overflow a Duration
	wait := min(*s.hello.WaitMS, longest.Milliseconds())
	return context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
}

// latest returns a callback that keeps the newest value only and never blocks.
// It must be called by one goroutine at a time.
func latest(c chan Waiting) func(Waiting) {
	return func(w Waiting) {
		select {
		case <-c:
		default:
		}
		select {
		case c <- w:
		default:
		}
	}
}

// onUpdate takes what a caller may say while it waits.
func (s *session) onUpdate(u Update, giveUp func(State)) {
	switch {
	case u.Release:
		giveUp(State{State: KindReleased})
	case u.Ping != 0:
		s.pinged(u.Ping)
	default:
		giveUp(badRequest("a group can be told once the lock is held").state())
	}
}

func (s *session) pinged(n uint64) {
	s.lastPing = s.cfg.Clock()
	s.ping = max(s.ping, n)
}

// acquired ends the wait. A lock that came just when the caller had given up was
// never told to it, so nobody works under it.
func (s *session) acquired(ctx context.Context, out outcome, last *State) Lease {
	switch {
	case last != nil:
		if out.lease != nil {
			s.unlock(ctx, out.lease)
		}
		s.out.write(*last)
		return nil
	case out.err != nil:
		s.out.write(failureOf(out.err).state())
		return nil
	}
	return out.lease
}

// unlock releases, also when ctx was cancelled.
func (s *session) unlock(ctx context.Context, lease Lease) {
	const patience = 5 * time.Second // it does not wait for the network
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := lease.Unlock(ctx); err != nil {
		s.log.WithError(err).Info("the lock was over before it was released")
	}
}

func failureOf(err error) *Error {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}
