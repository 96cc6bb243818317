package gossip

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/hashicorp/memberlist"
)

// notePing remembers a ping about to be sent. It reports false when the transport
// is closed; a ping that was let through before is on record.
func (t *netTransport) notePing(b []byte, to string) bool {
	kind, number, ok := messageNumber(b)
	isPing := ok && kind != msgAck
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return false
	}
	if isPing {
		t.pings[t.pingAt] = sentPing{number: number, to: to}
		t.pingAt = (t.pingAt + 1) % recentPings
	}
	t.mu.Unlock()
	if isPing && kind == msgPing {
		t.pinged(to)
	}
	return true
}

// noteAck tells who answered if b acknowledges one of the last pings, directly or
// through another member.
func (t *netTransport) noteAck(b []byte) {
	kind, number, ok := messageNumber(b)
	if !ok || kind != msgAck || number == 0 {
		return
	}
	t.mu.Lock()
	var to string
	for _, ping := range t.pings {
		if ping.number == number {
			to = ping.to
			break
		}
	}
	t.mu.Unlock()
	if to != "" {
		t.answered(to)
	}
}

// readPackets passes packets on until the transport or the socket is closed.
func (t *netTransport) readPackets() {
	buf := make([]byte, maxPacket)
	backoff := readBackoff
	for t.ctx.Err() == nil {
		n, from, err := t.packets.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && t.ctx.Err() != nil {
			return
		}
		if err != nil {
			t.log.debugf("gossip: read packet: %v", err)
			if !t.pause(backoff) {
				return
			}
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = readBackoff
		t.takePacket(buf[:n], from)
	}
}

// pause waits and reports whether to go on.
func (t *netTransport) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

func (t *netTransport) takePacket(b []byte, from net.Addr) {
	if err := checkPacket(b, t.label); err != nil {
		t.refused.Add(1)
		t.log.debugf("gossip: packet from %v dropped: %v", from, err)
		return
	}
	t.noteAck(b)
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: from, Timestamp: time.Now()}
	select {
	case t.packetCh <- packet:
	case <-t.ctx.Done():
	}
}
