package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treequorum/dmutex/node"
)

// A message is one msgpack array: its type, the header, then the fields of that
// type, always in this order and never more or fewer. fields.go lists them once
// for both directions. Integers are unsigned (no field of the protocol is ever
// negative), incarnations and ids are written as their parts.

// internBytes is how much text an Interner remembers. One serves one connection,
// where a handful of node and lock names come again and again.
const internBytes = 8 << 10

// AppendMessage appends the payload of a frame that carries m to buf and returns
// the longer slice, which the caller owns. On error buf comes back as it was, and
// the error (ErrInvalidMessage) names the field that breaks a limit. It does not
// keep m. An [Encoder] does the same without allocating each time.
func AppendMessage(buf []byte, m *node.Message) ([]byte, error) {
	var e Encoder
	return e.Append(buf, m)
}

// DecodeMessage reads one message from the payload of a frame. It keeps no
// reference to payload. The error (ErrInvalidFrame) says what is wrong; memory
// use is bounded by the payload's size whatever it claims. With an Interner it
// allocates only for texts that are new to it; in may be nil.
func DecodeMessage(payload []byte, in *Interner) (node.Message, error) {
	var m node.Message
	if err := checkPayload(payload); err != nil {
		return m, err
	}
	if in == nil {
		in = new(Interner)
	}
	c := in.open(payload)
	n, err := c.dec.DecodeArrayLen()
	if err != nil {
		return m, fmt.Errorf("%w: a message is an array: %w", ErrInvalidFrame, err)
	}
	num(c, "type", &m.Type, 0, math.MaxUint8)
	if c.err == nil && !m.Type.Valid() {
		c.fail("type", fmt.Sprintf("%d is not known in protocol version %d", uint8(m.Type), ProtocolVersion))
	}
	if want := messageFields(m.Type); c.err == nil && n != want {
		c.fail("length", fmt.Sprintf("%v has %d fields, this one %d", m.Type, want, n))
	}
	c.header(&m)
	c.body(&m)
	if c.err != nil {
		return node.Message{}, c.err
	}
	return m, nil
}

// Encoder encodes messages and allocates nothing once its caller's buffer has
// grown. The zero value is ready. It is for one goroutine at a time.
type Encoder struct {
	out sliceWriter
	c   coder
}

// Append is [AppendMessage] with the memory of e.
func (e *Encoder) Append(buf []byte, m *node.Message) ([]byte, error) {
	c := e.open(buf)
	if !m.Type.Valid() {
		c.fail("type", fmt.Sprintf("%d is not known", uint8(m.Type)))
	}
	c.array(messageFields(m.Type))
	typ := m.Type
	num(c, "type", &typ, 0, math.MaxUint8)
	c.header(m)
	c.body(m)
	return e.close(buf)
}

// open readies the coder to append to buf.
func (e *Encoder) open(buf []byte) *coder {
	if e.c.enc == nil {
		e.c.enc = msgpack.NewEncoder(&e.out)
	}
	e.out.b = buf
	e.c.err = nil
	return &e.c
}

// close returns what was appended, or buf as it was.
func (e *Encoder) close(buf []byte) ([]byte, error) {
	out := e.out.b
	e.out.b = nil
	if e.c.err != nil {
		return buf, e.c.err
	}
	if len(out)-len(buf) > MaxFrame {
		return buf, fmt.Errorf("%w: %d bytes, at most %d fit a frame", ErrInvalidMessage, len(out)-len(buf), MaxFrame)
	}
	return out, nil
}

// appendFrame appends a whole frame: the length, then m. On error buf comes back
// as it was.
func (e *Encoder) appendFrame(buf []byte, m *node.Message) ([]byte, error) {
	start := len(buf)
	out, err := e.Append(append(buf, 0, 0, 0, 0), m)
	if err != nil {
		return buf, err
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-frameHeader))
	return out, nil
}

// Interner remembers the texts of one connection, so that the same name decoded
// again costs no memory. It holds a few KiB at most. The zero value is ready. It
// is for one goroutine at a time.
type Interner struct {
	seen map[string]string
	size int
	r    bytes.Reader
	c    coder
}

// open readies the coder to read payload.
func (in *Interner) open(payload []byte) *coder {
	in.r.Reset(payload)
	if in.c.dec == nil {
		in.c.dec = msgpack.NewDecoder(&in.r)
		in.c.in = in
	}
	in.c.payload = payload
	in.c.err = nil
	return &in.c
}

// text returns b as a string, the one from last time when there was one.
func (in *Interner) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in.seen[string(b)]; ok {
		return s
	}
	if in.seen == nil || in.size+len(b) > internBytes {
		in.seen = make(map[string]string)
		in.size = 0
	}
	s := string(b)
	in.seen[s] = s
	in.size += len(s)
	return s
}

// coder carries one message through its fields in either direction: with enc set
// it writes them, else it reads them. The first error sticks.
type coder struct {
	enc     *msgpack.Encoder
	dec     *msgpack.Decoder
	in      *Interner
	payload []byte
	err     error
}

// fail notes the first error.
func (c *coder) fail(field, problem string) {
	if c.err != nil {
		return
	}
	kind := ErrInvalidFrame
	if c.enc != nil {
		kind = ErrInvalidMessage
	}
	c.err = fmt.Errorf("%w: %s %s", kind, field, problem)
}

// encoded notes an error of the msgpack library.
func (c *coder) encoded(field string, err error) {
	if err != nil {
		c.fail(field, err.Error())
	}
}

// array writes the header of an array of n fields.
func (c *coder) array(n int) {
	if c.err == nil {
		c.encoded("length", c.enc.EncodeArrayLen(n))
	}
}

// integer is every kind of number in a message.
type integer interface {
	~uint8 | ~uint32 | ~uint64 | ~int64
}

// num passes a number between lowest and highest.
func num[T integer](c *coder, field string, v *T, lowest, highest uint64) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		n := uint64(*v)
		if *v < 0 || n < lowest || n > highest {
			c.outOfRange(field, fmt.Sprint(*v), lowest, highest)
			return
		}
		c.encoded(field, c.enc.EncodeUint(n))
		return
	}
	n, err := c.dec.DecodeUint64()
	if err != nil {
		c.encoded(field, err)
		return
	}
	if n < lowest || n > highest {
		c.outOfRange(field, fmt.Sprint(n), lowest, highest)
		return
	}
	*v = T(n)
}

func (c *coder) outOfRange(field, got string, lowest, highest uint64) {
	c.fail(field, fmt.Sprintf("is %s, allowed are %d to %d", got, lowest, highest))
}

// flag passes a boolean.
func (c *coder) flag(field string, v *bool) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		c.encoded(field, c.enc.EncodeBool(*v))
		return
	}
	b, err := c.dec.DecodeBool()
	c.encoded(field, err)
	*v = b
}

// text passes a string of minLen to maxLen bytes.
func (c *coder) text(field string, v *string, minLen, maxLen int) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		if problem := checkText(*v, minLen, maxLen); problem != "" {
			c.fail(field, problem)
			return
		}
		c.encoded(field, c.enc.EncodeString(*v))
		return
	}
	n, err := c.dec.DecodeBytesLen()
	if err != nil {
		c.encoded(field, err)
		return
	}
	// The payload is at hand, so the text is cut out of it instead of being
	// copied; checkPayload has seen that it lies within.
	start := len(c.payload) - c.in.r.Len()
	if n < 0 || n > len(c.payload)-start {
		c.fail(field, "is cut short")
		return
	}
	b := c.payload[start : start+n]
	if _, err := c.in.r.Seek(int64(n), io.SeekCurrent); err != nil {
		c.encoded(field, err)
		return
	}
	if problem := checkText(b, minLen, maxLen); problem != "" {
		c.fail(field, problem)
		return
	}
	*v = c.in.text(b)
}

// sliceWriter lets the library append to a slice.
type sliceWriter struct{ b []byte }

// Write appends p.
func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// WriteByte appends one byte.
func (w *sliceWriter) WriteByte(b byte) error {
	w.b = append(w.b, b)
	return nil
}
