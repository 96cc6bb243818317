package transport

import (
	"bufio"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/treequorum/dmutex/node"
)

// frame puts a length in front.
func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// opening is the preamble and a hello.
func opening(t *testing.T, h hello) []byte {
	t.Helper()
	out, err := h.appendFrame([]byte(preamble))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func clientHello(name, expected string) hello {
	return hello{version: ProtocolVersion, role: roleClient, cluster: "test", name: name, expected: expected}
}

// hostileFrames are connections that break the rules at once, hostileSilence those
// that stop in the middle.
func hostileFrames(t *testing.T) map[string]string {
	t.Helper()
	m := request("x", "b", 1)
	message, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	good := string(opening(t, clientHello("x", "b")))
	return map[string]string{
		"another framing version": "DMX\x02",
		"a message for a hello":   preamble + string(frame(message)),
		"hello of 2 KiB":          preamble + "\x00\x00\x08\x00",
		"garbage for a hello":     preamble + string(frame([]byte("garbage"))),
		"short hello":             preamble + string(frame([]byte("\x92\x00\x01"))),
		"this node's own name":    string(opening(t, clientHello("b", "b"))),
		"header of 100 MB":        good + "\x06\x40\x00\x00",
		"header of 4 GiB":         good + "\xff\xff\xff\xff",
		"header of 64 KiB + 1":    good + "\x00\x01\x00\x01",
		"header of 0":             good + "\x00\x00\x00\x00",
		"garbage frame":           good + string(frame([]byte("garbage"))),
		"array of 2^32 items":     good + string(frame([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})),
		"deep nesting":            good + string(frame([]byte(strings.Repeat("\x91", 60_000)))),
		"a second hello":          good + good[len(preamble):],
	}
}

func hostileSilence(t *testing.T) map[string]string {
	t.Helper()
	good := string(opening(t, clientHello("x", "b")))
	return map[string]string{
		"nothing":         "",
		"half a preamble": "DM",
		"no hello":        preamble,
		"half a hello":    good[:len(good)-1],
		"half a header":   good + "\x00\x00",
		"half a frame":    good + "\x00\x00\x01\x00abc",
		"one of 64 KiB":   good + "\x00\x01\x00\x00abc",
	}
}

// TestHostileConnections: each is closed, at once or when its time is over, without
// a panic and with little memory, while a proper connection goes on.
func TestHostileConnections(t *testing.T) {
	for kind, hostile := range map[string]map[string]string{"at once": hostileFrames(t), "in time": hostileSilence(t)} {
		t.Run(kind, func(t *testing.T) {
			f := newFabric(t)
			if kind == "at once" {
				f.lim.Handshake, f.lim.Read = time.Minute, time.Minute
			}
			hb := newRecorder()
			f.start(t, "b", false, hb)
			a := f.start(t, "a", false, newRecorder())
			a.Send(request("a", "b", 0))
			hb.waitCount(t, 1)
			conns := make(map[string]net.Conn)
			grown := heapGrowth(func() {
				for name, bytes := range hostile {
					conns[name] = dialPort(t, f.ports["b"], bytes)
				}
				for name, c := range conns {
					t.Log(name)
					waitClosed(t, c, patience)
				}
			})
			if grown > 4<<20 {
				t.Errorf("allocated %d bytes, want less than 4 MiB", grown)
			}
			a.Send(request("a", "b", 2))
			if got := hb.waitCount(t, 2); len(got) != 2 || got[1].ID.Counter != 2 {
				t.Errorf("b got %+v, want the two messages of a", got)
			}
			if n := len(hb.mismatches); n != 0 {
				t.Errorf("%d mismatches reported: %v, want none", n, hb.mismatches)
			}
		})
	}
}

// TestSlowloris: a byte now and then does not keep a started frame alive.
func TestSlowloris(t *testing.T) {
	f := newFabric(t)
	hb := newRecorder()
	f.start(t, "b", false, hb)
	for _, first := range []string{preamble, string(opening(t, clientHello("x", "b")))} {
		c := dialPort(t, f.ports["b"], first+"\x00\x00\x04\x00")
		started := time.Now()
		tick := time.NewTicker(f.lim.Read / 10)
		for {
			<-tick.C
			if _, err := c.Write([]byte{1}); err != nil {
				break
			}
			if time.Since(started) > 10*f.lim.Read {
				t.Fatalf("a frame was still being read after %v, want an end at %v", time.Since(started), f.lim.Read)
			}
		}
		tick.Stop()
	}
}

// TestQuietConnectionStays: no deadline of the handshake, or of a frame that came in
// two parts, is left on at either end.
func TestQuietConnectionStays(t *testing.T) {
	f := newFabric(t)
	f.lim.Handshake, f.lim.Read = 50*time.Millisecond, 50*time.Millisecond
	hb, hc := newRecorder(), newRecorder()
	b := f.start(t, "b", false, hb)
	client := f.start(t, "c", true, hc)
	client.Send(request("c", "b", 1))
	x := dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b"))))
	m := request("x", "b", 2)
	p, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	pause := func() { <-time.After(4 * f.lim.Read) } // longer than anything left over
	send := func(bytes []byte) {
		if _, err := x.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	pause()
	send(frame(p)[:10])
	<-time.After(f.lim.Read / 5)
	send(frame(p)[10:])
	hb.waitCount(t, 2)
	pause()
	send(frame(p))
	hb.waitCount(t, 3)
	b.Send(grant("b", "c", 3))
	hc.waitCount(t, 1)
	if s := client.Stats(); s.Dials != 1 {
		t.Errorf("the client dialed %d times, want once", s.Dials)
	}
}

// TestMisaddressed: nobody speaks for another, or in another's role.
func TestMisaddressed(t *testing.T) {
	f := newFabric(t)
	hb := newRecorder()
	b := f.start(t, "b", false, hb)
	out := opening(t, clientHello("x", "b"))
	for _, m := range []node.Message{
		request("y", "b", 1), // another sender than the hello named
		request("x", "c", 2), // for another receiver
		grant("x", "b", 3),   // an answer from the side that asks
		request("x", "b", 4),
	} {
		p, err := AppendMessage(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, frame(p)...)
	}
	dialPort(t, f.ports["b"], string(out))
	if got := hb.waitCount(t, 1); len(got) != 1 || got[0].ID.Counter != 4 {
		t.Errorf("b got %+v, want only the last message", got)
	}
	if s := b.Stats(); s.Misaddressed != 3 || s.DecodeErrors != 0 {
		t.Errorf("counted %+v, want 3 misaddressed", s)
	}
}

// TestManyConnectionsOfOneName: the oldest gives way, the newest gets the answers.
func TestManyConnectionsOfOneName(t *testing.T) {
	f := newFabric(t)
	b := f.start(t, "b", false, newRecorder())
	var conns []net.Conn
	const limit = 8
	for i := range limit + 2 {
		conns = append(conns, dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b")))))
		eventually(t, "the connection to be taken", func() bool {
			s := b.Stats()
			return s.Inbound == int64(min(i+1, limit)) && s.Replaced == uint64(max(0, i+1-limit))
		})
	}
	waitClosed(t, conns[0], patience)
	waitClosed(t, conns[1], patience)
	b.Send(grant("b", "x", 1))
	br := bufio.NewReader(conns[limit+1])
	if err := conns[limit+1].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := readHello(br); err != nil {
		t.Fatal(err)
	}
	p, err := readPayload(br, nil, MaxFrame)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := DecodeMessage(p, nil); err != nil || m != grant("b", "x", 1) {
		t.Errorf("the newest connection got %+v, %v", m, err)
	}
}

// TestSlowReader: a peer that never reads is given up after the write time-out,
// and does not hold others up.
func TestSlowReader(t *testing.T) {
	f := newFabric(t)
	f.lim.Write = 100 * time.Millisecond
	b := f.start(t, "b", false, newRecorder())
	dialPort(t, f.ports["b"], string(opening(t, clientHello("x", "b"))))
	eventually(t, "the connection", func() bool { return b.Stats().Inbound == 1 })
	m := grant("b", "x", 1)
	m.Lock = strings.Repeat("n", MaxLockName)
	eventually(t, "the connection to be closed", func() bool {
		for range 1000 {
			b.Send(m)
		}
		s := b.Stats()
		return s.Inbound == 0 && s.DroppedBroken > 0
	})
}
