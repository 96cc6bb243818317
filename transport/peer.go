package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// peer is a node that this one dials. Its goroutine dials when there is something
// to send and writes; the queue outlives the connections.
type peer struct {
	t    *TCP
	name string
	q    *queue
	rng  *rand.Rand // for the jitter; used by run only

	failures int // attempts in a row that brought no lasting connection
}

func newPeer(t *TCP, name string) *peer {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash never fails
	return &peer{
		t: t, name: name, q: newQueue(&t.limits, &t.count),
		rng: rand.New(rand.NewPCG(t.cfg.Seed, h.Sum64())), //nolint:gosec // jitter, not secrets
	}
}

// run keeps a connection while it is wanted, until the transport closes.
func (p *peer) run() {
	for p.wait() {
		l, err := p.dial()
		if err != nil {
			p.failed(err)
			continue
		}
		p.serve(l)
	}
	p.t.count.droppedBroken.Add(uint64(p.q.discard()))
}

// wait returns true when it is time to dial: something was sent lately, and the
// wait after the last failure is over. It returns false when the transport closes.
func (p *peer) wait() bool {
	if p.failures > 0 {
		pause := time.NewTimer(p.backoff())
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-p.t.closing:
			return false
		}
	}
	for !p.q.usedSince(time.Now().Add(-p.t.limits.Redial)) {
		select {
		case <-p.q.ready:
		case <-p.t.closing:
			return false
		}
	}
	return !p.t.isClosing()
}

// backoff draws the wait before the next attempt: anything up to a bound that
// doubles with each failure, so that many nodes do not come back in step.
func (p *peer) backoff() time.Duration {
	bound := p.t.limits.BackoffMin
	for i := 1; i < p.failures && bound < p.t.limits.BackoffMax; i++ {
		bound *= 2
	}
	return time.Duration(p.rng.Int64N(int64(min(bound, p.t.limits.BackoffMax)) + 1))
}

// failed counts an attempt that brought no connection and tells the handler.
func (p *peer) failed(err error) {
	p.failures++
	if p.t.isClosing() {
		return
	}
	mismatch, differs := errors.AsType[mismatchError](err)
	switch {
	case differs:
		p.t.count.mismatches.Add(1)
		p.failures = max(p.failures, maxBackoffFailures) // it will not mend in milliseconds
		p.t.handler.PeerMismatch(mismatch.Mismatch)
	case isRefusal(err):
		p.t.count.dialsRefused.Add(1)
		p.t.handler.PeerRefused(p.name)
	default:
		p.t.count.dialsFailed.Add(1)
	}
}

// maxBackoffFailures doubles any BackoffMin to its bound.
const maxBackoffFailures = 32

// isRefusal says that the other end, or its network, said no: a hint that the
// peer is down. A time-out says nothing, and a shortage of this process's own
// (descriptors, memory, ports) is not the peer's fault.
func isRefusal(err error) bool {
	for _, own := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, context.Canceled,
	} {
		if errors.Is(err, own) {
			return false
		}
	}
	ne, ok := errors.AsType[net.Error](err)
	return !ok || !ne.Timeout()
}

// dial connects and exchanges hellos. Nothing of the other end is believed
// before its hello has the expected name.
func (p *peer) dial() (*link, error) {
	t := p.t
	t.count.dials.Add(1)
	addr, ok := t.resolve(p.name)
	if !ok {
		return nil, fmt.Errorf("transport: peer %q has no address any more", p.name)
	}
	conn, err := dialTCP(t.hard, addr, t.limits.Dial)
	if err != nil {
		return nil, fmt.Errorf("transport: dial peer %q: %w", p.name, err)
	}
	// TLS, when it comes, wraps conn here: everything below works on any net.Conn.
	stop := context.AfterFunc(t.hard, func() { _ = conn.Close() })
	br := bufio.NewReaderSize(conn, readBuffer)
	err = p.handshake(conn, br)
	if !stop() && err == nil {
		err = context.Canceled
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return newLink(t, conn, br, p.name, false, p.q), nil
}

// handshake says who is here and checks who is there.
func (p *peer) handshake(conn net.Conn, br *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(p.t.limits.Handshake)); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	own := p.t.own
	own.expected = p.name
	out, err := own.appendFrame([]byte(preamble))
	if err != nil {
		return err
	}
	if _, err := conn.Write(out); err != nil {
		return fmt.Errorf("%w: with peer %q: %w", ErrHandshake, p.name, err)
	}
	got, err := readHello(br)
	if err != nil {
		return fmt.Errorf("peer %q at %v: %w", p.name, conn.RemoteAddr(), err)
	}
	if m := got.compare(&own, p.name, conn.RemoteAddr()); m != nil {
		return mismatchError{*m}
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return nil
}

// serve writes until the connection ends. Its reader runs beside.
func (p *peer) serve(l *link) {
	if !p.t.addLink(l) {
		l.close()
		return
	}
	since := time.Now()
	p.t.wg.Go(l.read)
	l.write()
	p.t.removeLink(l)
	if time.Since(since) >= p.t.limits.BackoffMax {
		p.failures = 0 // it was a good one: dial again at once
	} else {
		p.failures++
	}
}
