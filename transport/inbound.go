package transport

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"
)

// accepted takes a lock connection from the Port and does not block.
func (t *TCP) accepted(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.Close()
		return
	}
	t.pending[conn] = struct{}{}
	t.wg.Go(func() { t.serveInbound(conn) })
}

// serveInbound answers the hello and then reads; a second goroutine writes.
func (t *TCP) serveInbound(conn net.Conn) {
	// TLS, when it comes, wraps conn here: everything below works on any net.Conn.
	br := bufio.NewReaderSize(conn, readBuffer)
	name, err := t.welcome(conn, br)
	t.mu.Lock()
	delete(t.pending, conn)
	t.mu.Unlock()
	if err != nil {
		_ = conn.Close()
		t.refused(err)
		return
	}
	l := newLink(t, conn, br, name, true, newQueue(&t.limits, &t.count))
	if !t.addLink(l) {
		l.close()
		return
	}
	t.wg.Go(func() {
		l.write()
		t.removeLink(l)
		t.count.droppedBroken.Add(uint64(l.q.discard()))
	})
	l.read()
}

// welcome reads the hello of whoever dialed and sends this node's. That goes out
// even when they do not match, so that the other end can say what differs.
func (t *TCP) welcome(conn net.Conn, br *bufio.Reader) (name string, err error) {
	if err := conn.SetDeadline(time.Now().Add(t.limits.Handshake)); err != nil {
		return "", err
	}
	if err := readPreamble(br); err != nil {
		return "", err
	}
	got, err := readHello(br)
	if err != nil {
		return "", err
	}
	if got.name == t.cfg.Name {
		return "", fmt.Errorf("%w: %v claims this node's own name", ErrHandshake, conn.RemoteAddr())
	}
	out, err := t.own.appendFrame(nil)
	if err != nil {
		return "", err
	}
	if _, err := conn.Write(out); err != nil {
		return "", err
	}
	if m := got.compare(&t.own, "", conn.RemoteAddr()); m != nil {
		return "", mismatchError{*m}
	}
	return got.name, conn.SetDeadline(time.Time{})
}

// refused counts a connection that did not get through its handshake, and tells
// the handler when a node of another kind is behind it.
func (t *TCP) refused(err error) {
	if t.isClosing() {
		return
	}
	mismatch, differs := errors.AsType[mismatchError](err)
	if !differs {
		t.count.handshakesFailed.Add(1)
		return
	}
	t.count.mismatches.Add(1)
	t.handler.PeerMismatch(mismatch.Mismatch)
}
