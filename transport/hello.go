package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"
)

// ProtocolVersion is what a hello says. Two nodes with different versions refuse
// one another with a [Mismatch].
const ProtocolVersion = 1

const (
	// preamble opens a lock connection. Its first byte tells it from a gossip
	// stream (0 to 13, 244) and from TLS (0x16); its last is the version of the
	// framing, which comes before any other.
	preamble    = "DMX\x01"
	frameHeader = 4
	// helloKind stands where a message has its type, which is never 0.
	helloKind = 0
	// helloFields is the least number of values in a hello; a later version may
	// append more, so only kind and version have a fixed place for ever.
	helloFields = 6
	// maxHello bounds what is read from somebody who has not said who it is.
	maxHello = 1 << 10
	// readStep bounds the memory that a frame header alone can claim.
	readStep = 4 << 10
)

// role is what a node does for the others.
type role uint8

const (
	roleMember role = iota + 1
	roleClient
)

// hello is the first frame each way: who is there and whom it expects.
type hello struct {
	version  uint32
	role     role
	cluster  string
	name     string
	expected string // the other end's name; empty in the accepting side's hello
}

// appendFrame appends the hello as a frame.
func (h *hello) appendFrame(buf []byte) ([]byte, error) {
	var e Encoder
	start := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	c := e.open(buf)
	c.array(helloFields)
	h.fields(c)
	out, err := e.close(buf)
	if err != nil {
		return buf[:start], err
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-frameHeader))
	return out, nil
}

// fields passes the hello in either direction. When the version read is another
// one the rest is left alone: it may look different there.
func (h *hello) fields(c *coder) {
	kind := uint8(helloKind)
	num(c, "kind", &kind, helloKind, helloKind)
	num(c, "version", &h.version, 1, math.MaxUint32)
	if c.enc == nil && h.version != ProtocolVersion {
		return
	}
	num(c, "role", &h.role, uint64(roleMember), uint64(roleClient))
	c.text("cluster", &h.cluster, 0, MaxNodeName)
	c.text("name", &h.name, 1, MaxNodeName)
	c.text("expected name", &h.expected, 0, MaxNodeName)
}

// decodeHello reads the payload of a hello.
func decodeHello(payload []byte) (hello, error) {
	var h hello
	if err := checkPayload(payload); err != nil {
		return h, err
	}
	var in Interner
	c := in.open(payload)
	n, err := c.dec.DecodeArrayLen()
	if err != nil {
		return h, fmt.Errorf("%w: a hello is an array: %w", ErrInvalidFrame, err)
	}
	if n < helloFields {
		return h, fmt.Errorf("%w: a hello of %d fields", ErrInvalidFrame, n)
	}
	h.fields(c)
	return h, c.err
}

// compare returns what the two ends do not agree on, or nil. dialed is the name
// that this node dialed, empty when it accepted.
func (h *hello) compare(own *hello, dialed string, remote net.Addr) *Mismatch {
	m := Mismatch{Peer: dialed, Addr: remote.String(), Inbound: dialed == ""}
	if m.Inbound {
		m.Peer = h.name
	}
	switch {
	case h.version != own.version:
		m.Kind = MismatchVersion
		m.Want, m.Got = strconv.FormatUint(uint64(own.version), 10), strconv.FormatUint(uint64(h.version), 10)
	case h.cluster != own.cluster:
		m.Kind, m.Want, m.Got = MismatchCluster, own.cluster, h.cluster
	case m.Inbound && h.expected != own.name:
		m.Kind, m.Want, m.Got = MismatchName, own.name, h.expected
	case !m.Inbound && h.name != dialed:
		m.Kind, m.Want, m.Got = MismatchName, dialed, h.name
	default:
		return nil
	}
	return &m
}

// readHello reads the other end's hello within the deadline set on the
// connection.
func readHello(br *bufio.Reader) (hello, error) {
	payload, err := readPayload(br, nil, maxHello)
	if err != nil {
		return hello{}, fmt.Errorf("%w: no hello: %w", ErrHandshake, err)
	}
	h, err := decodeHello(payload)
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return h, nil
}

// readPreamble reads and compares the preamble.
func readPreamble(r io.Reader) error {
	var got [len(preamble)]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return fmt.Errorf("%w: no preamble: %w", ErrHandshake, err)
	}
	if string(got[:]) != preamble {
		return fmt.Errorf("%w: preamble %q, expected %q", ErrHandshake, got, preamble)
	}
	return nil
}

// readFrame reads the next frame. It waits for the first byte for as long as it
// takes (a quiet connection is fine, keep-alive finds dead ones), but for the rest
// of a started frame only up to timeout. The payload is valid until the next
// call with the same buf, which it may have grown.
func readFrame(conn net.Conn, br *bufio.Reader, buf []byte, timeout time.Duration) ([]byte, error) {
	if _, err := br.Peek(1); err != nil {
		return nil, err
	}
	if !frameBuffered(br) {
		if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return nil, err
		}
		payload, err := readPayload(br, buf, MaxFrame)
		if err != nil {
			return nil, err
		}
		return payload, conn.SetReadDeadline(time.Time{})
	}
	return readPayload(br, buf, MaxFrame)
}

// frameBuffered says that reading the next frame cannot wait.
func frameBuffered(br *bufio.Reader) bool {
	if br.Buffered() < frameHeader {
		return false
	}
	head, err := br.Peek(frameHeader)
	return err == nil && uint64(br.Buffered()-frameHeader) >= uint64(binary.BigEndian.Uint32(head))
}

// readPayload reads one frame of at most limit bytes into buf. Memory grows with
// what has arrived, not with what the header claims.
func readPayload(br *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	head, err := br.Peek(frameHeader)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if _, err := br.Discard(frameHeader); err != nil {
		return nil, err
	}
	if n == 0 || n > uint32(limit) {
		return nil, fmt.Errorf("%w: a frame of %d bytes, allowed are 1 to %d", ErrInvalidFrame, n, limit)
	}
	buf = buf[:0]
	for left := int(n); left > 0; {
		step := min(left, readStep)
		start := len(buf)
		buf = append(buf, make([]byte, step)...)
		if _, err := io.ReadFull(br, buf[start:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		left -= step
	}
	return buf, nil
}
