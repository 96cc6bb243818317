package transport

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treequorum/dmutex/node"
)

// readBuffer holds a few dozen usual messages, so that one read takes many.
const readBuffer = 4 << 10

// link is one connection after both hellos.
type link struct {
	t       *TCP
	conn    net.Conn
	br      *bufio.Reader
	peer    string // the name at the other end
	inbound bool   // the other end dialed
	q       *queue // what this end sends; an outbound link's is its peer's
	once    sync.Once
	dead    chan struct{}                    // closed by close
	process atomic.Pointer[node.Incarnation] // that sent the latest message; nil: none yet
}

func newLink(t *TCP, conn net.Conn, br *bufio.Reader, name string, inbound bool, q *queue) *link {
	return &link{t: t, conn: conn, br: br, peer: name, inbound: inbound, q: q, dead: make(chan struct{})}
}

// close ends the connection; reader and writer notice.
func (l *link) close() {
	l.once.Do(func() {
		_ = l.conn.Close() // the connection is given up: an error changes nothing
		close(l.dead)
	})
}

// read delivers messages until the connection ends. A frame that is no message
// ends it: what follows cannot be trusted to start at a boundary.
func (l *link) read() {
	defer l.close()
	var in Interner
	var buf []byte
	count := &l.t.count
	for {
		payload, err := readFrame(l.conn, l.br, buf, l.t.limits.Read)
		if err != nil {
			if errors.Is(err, ErrInvalidFrame) || errors.Is(err, io.ErrUnexpectedEOF) {
				count.decodeErrors.Add(1)
			}
			return
		}
		buf = payload
		if cap(buf) > keepBuffer {
			buf = nil // the payload stays valid for this round
		}
		count.bytesIn.Add(uint64(frameHeader + len(payload)))
		m, err := DecodeMessage(payload, &in)
		if err != nil {
			count.decodeErrors.Add(1)
			return
		}
		count.framesIn.Add(1)
		l.deliver(m)
	}
}

// deliver hands a message over when it is one that this connection may carry: the
// dialing side asks and the accepting side answers, each under the name of its
// hello. Without this one node could speak for another.
func (l *link) deliver(m node.Message) {
	if m.From != l.peer || m.To != l.t.cfg.Name || m.Type.FromMember() == l.inbound {
		l.t.count.misaddressed.Add(1)
		return
	}
	if l.t.isClosing() {
		return
	}
	if p := l.process.Load(); p == nil || *p != m.FromIncarnation {
		process := m.FromIncarnation
		l.process.Store(&process)
	}
	l.t.handler.Deliver(m)
}

// write sends what the queue holds until the connection ends or, once the
// transport closes, the queue is empty and the other end has read it all.
func (l *link) write() {
	defer l.close()
	var batch []byte
	for {
		if !l.flush(&batch) {
			return
		}
		select {
		case <-l.q.ready:
		case <-l.dead:
			return
		case <-l.t.closing:
			l.finish(&batch)
			return
		}
	}
}

// flush writes all that is queued now, many messages in one write. It returns
// false when the connection is broken.
func (l *link) flush(batch *[]byte) bool {
	count := &l.t.count
	for {
		var frames int
		now := time.Now()
		*batch, frames = l.q.take((*batch)[:0], now)
		if frames == 0 {
			if cap(*batch) > keepBuffer {
				*batch = nil
			}
			return true
		}
		if err := l.conn.SetWriteDeadline(now.Add(l.t.limits.Write)); err != nil {
			count.droppedBroken.Add(uint64(frames))
			return false
		}
		if _, err := l.conn.Write(*batch); err != nil {
			count.droppedBroken.Add(uint64(frames))
			return false
		}
		count.writes.Add(1)
		count.framesOut.Add(uint64(frames))
		count.bytesOut.Add(uint64(len(*batch)))
	}
}

// finish sends the rest and waits until the other end has closed too, which it
// does when it has read everything. A full close at once could reach it as a reset
// that throws away the goodbye in its buffer. Close of the transport bounds the
// wait by closing the link.
func (l *link) finish(batch *[]byte) {
	if !l.flush(batch) || closeWrite(l.conn) != nil {
		return
	}
	<-l.dead
}
