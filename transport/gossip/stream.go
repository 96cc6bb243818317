package gossip

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
)

// stream is a TCP connection in memberlist's hands. It looks at the head of what
// comes in before memberlist does, limits how much may come, and makes sure that
// the connection is closed and forgotten once.
//
// Only one goroutine reads; Close may be called at any time by others.
type stream struct {
	net.Conn
	label   string // inbound: the label that must come first
	inbound bool
	release func(*stream)
	once    sync.Once

	checked bool
	failed  error
	head    []byte // read and looked at, not yet handed out
	left    int    // bytes that may still be read
}

func newStream(conn net.Conn, label string, inbound bool, release func(*stream)) *stream {
	return &stream{Conn: conn, label: label, inbound: inbound, release: release, left: maxStreamBytes}
}

// Close closes the connection and takes it off the transport's books.
func (s *stream) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		err = s.Conn.Close()
		s.release(s)
	})
	return err
}

// Write closes the connection when it fails: memberlist drops a connection whose
// label it could not write without closing it.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err != nil {
		_ = s.Close() // the error of the write is the one that matters
	}
	return n, err
}

// Read hands out the head once it has passed, then the rest up to the limit.
func (s *stream) Read(b []byte) (int, error) {
	if !s.checked {
		s.checked = true
		s.failed = s.checkHead()
	}
	if s.failed != nil {
		return 0, s.failed
	}
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if s.left == 0 {
		return 0, fmt.Errorf("%w: more than %d bytes on one stream", errTooBig, maxStreamBytes)
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// take reads the next n bytes into the head.
func (s *stream) take(n int) ([]byte, error) {
	at := len(s.head)
	s.head = slices.Grow(s.head, n)[:at+n]
	got, err := io.ReadFull(s.Conn, s.head[at:])
	s.left -= got
	if at > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return s.head[at:], err
}

// checkHead reads up to the point where memberlist would begin to trust numbers:
// it makes room for as many nodes, and as many bytes of user state, as the head of a
// push/pull claims, which is tens of megabytes for a few bytes sent.
func (s *stream) checkHead() error {
	if s.inbound && s.label != "" {
		if err := s.checkLabel(); err != nil {
			return err
		}
	}
	kind, err := s.take(1)
	if err != nil {
		return err
	}
	switch {
	case kind[0] == msgPushPull:
		return s.checkPushPull()
	case s.inbound && kind[0] == msgPing:
		return nil
	case !s.inbound && (kind[0] == msgAck || kind[0] == msgError):
		return nil
	}
	return fmt.Errorf("%w: stream type %d", errRefused, kind[0])
}

func (s *stream) checkLabel() error {
	head, err := s.take(2)
	if err != nil {
		return err
	}
	if head[0] != msgLabel || int(head[1]) != len(s.label) {
		return errLabel
	}
	got, err := s.take(len(s.label))
	if err != nil {
		return err
	}
	if string(got) != s.label {
		return errLabel
	}
	return nil
}

func (s *stream) checkPushPull() error {
	return scanner{next: s.take}.fields(func(key string, value int64) error {
		switch {
		case key == "Nodes" && (value < 0 || value > maxPeers):
			return fmt.Errorf("%w: push/pull of %d nodes, at most %d are allowed", errTooBig, value, maxPeers)
		case key == "UserStateLen" && value != 0:
			return fmt.Errorf("%w: push/pull with user state", errRefused)
		}
		return nil
	})
}
