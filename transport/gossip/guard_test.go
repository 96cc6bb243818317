package gossip

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// labeled puts a label in front of a message.
func labeled(label string, b ...byte) []byte {
	return append(append([]byte{msgLabel, byte(len(label))}, label...), b...)
}

// compound joins messages into one packet.
func compound(parts ...[]byte) []byte {
	out := []byte{msgCompound, byte(len(parts))}
	for _, part := range parts {
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
	}
	for _, part := range parts {
		out = append(out, part...)
	}
	return out
}

func TestCheckPacket(t *testing.T) {
	ping := []byte{msgPing, 0x80}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"ping", labeled("L", ping...), nil},
		{"crc", labeled("L", append([]byte{msgCRC, 1, 2, 3, 4}, ping...)...), nil},
		{"compound", labeled("L", compound(ping, []byte{msgAlive}, []byte{msgNack})...), nil},
		{"empty", nil, errLabel},
		{"no label", ping, errLabel},
		{"other label", labeled("M", ping...), errLabel},
		{"longer label", labeled("LL", ping...), errLabel},
		{"cut label", []byte{msgLabel, 9, 'L'}, errTruncated},
		{"label alone", []byte{msgLabel}, errTruncated},
		{"nothing behind the label", labeled("L"), errTruncated},
		{"user", labeled("L", 8, 1), errRefused},
		{"compressed", labeled("L", 9, 1), errRefused},
		{"encrypted", labeled("L", 10, 1), errRefused},
		{"push/pull", labeled("L", msgPushPull, 1), errRefused},
		{"user in compound", labeled("L", compound(ping, []byte{8})...), errRefused},
		{"compressed in compound", labeled("L", compound([]byte{9}, ping)...), errRefused},
		{"compound in compound", labeled("L", compound(compound(ping))...), errRefused},
		{"compound behind crc", labeled("L", append([]byte{msgCRC, 1, 2, 3, 4}, compound([]byte{8})...)...), errRefused},
		{"compound without count", labeled("L", msgCompound), errTruncated},
		{"compound cut in its lengths", labeled("L", msgCompound, 3, 0, 1), errTruncated},
		{"compound cut in its parts", labeled("L", msgCompound, 1, 0, 9, 0), errTruncated},
		{"compound with an empty part", labeled("L", compound(ping, nil)...), errTruncated},
	} {
		if err := checkPacket(c.b, "L"); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestMessageNumber(t *testing.T) {
	for _, number := range []uint32{1, 127, 128, 70000, 1<<32 - 1} {
		ack := ackPacket("", number)
		for name, b := range map[string][]byte{
			"plain": ack, "label": ackPacket("cluster", number), "compound": compound(ack, []byte{msgAlive}),
			"crc": append([]byte{msgCRC, 0, 0, 0, 0}, ack...),
		} {
			kind, got, ok := messageNumber(b)
			if kind != msgAck || got != number || !ok {
				t.Errorf("%s: got type %d, number %d, %v; want type %d, number %d, true", name, kind, got, ok, msgAck, number)
			}
		}
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "no map": {msgPing}, "array": {msgPing, 0x91, 1}, "other type": {msgAlive, 0x80},
		"no number": {msgPing, 0x80}, "negative": {msgPing, 0x81, 0xa5, 'S', 'e', 'q', 'N', 'o', 0xff},
		"cut": ackPacket("", 1)[:9], "huge map": {msgPing, 0xde, 0xff, 0xff},
	} {
		if _, got, ok := messageNumber(b); ok {
			t.Errorf("%s: got number %d, want none", name, got)
		}
	}
}

// pushPull encodes the head of a push/pull as memberlist does.
func pushPull(nodes, userState uint32) []byte {
	b := append([]byte{msgPushPull, 0x83, 0xa4}, "Join"...)
	b = append(b, 0xc3, 0xa5)
	b = append(b, "Nodes"...)
	b = binary.BigEndian.AppendUint32(append(b, 0xce), nodes)
	b = append(append(b, 0xac), "UserStateLen"...)
	return binary.BigEndian.AppendUint32(append(b, 0xd2), userState)
}

func TestStreamHead(t *testing.T) {
	array := []byte{msgPushPull, 0x93, 0xce, 0, 0x0f, 0xff, 0xff, 0, 0xc3} // go-msgpack takes it for the same
	text := append([]byte{msgPushPull, 0x81, 0xa5}, append([]byte("Nodes"), 0xa1, '9')...)
	double := append([]byte{msgPushPull, 0x82, 0xa5}, append([]byte("Nodes"), 1)...)
	double = append(append(double, 0xa5), append([]byte("Nodes"), 0xcd, 0xff, 0xff)...)
	for _, c := range []struct {
		name    string
		inbound bool
		b       []byte
		want    error
	}{
		{"push/pull", true, labeled("L", pushPull(maxPeers, 0)...), nil},
		{"push/pull answered", false, pushPull(maxPeers, 0), nil},
		{"ping", true, labeled("L", msgPing), nil},
		{"ack", false, []byte{msgAck}, nil},
		{"error", false, []byte{msgError}, nil},
		{"nothing", true, nil, nil},
		{"no label", true, pushPull(1, 0), errLabel},
		{"other label", true, labeled("M", msgPing), errLabel},
		{"cut label", true, []byte{msgLabel, 1}, io.ErrUnexpectedEOF},
		{"cut head", true, labeled("L", pushPull(1, 0)[:20]...), io.ErrUnexpectedEOF},
		{"many nodes", true, labeled("L", pushPull(maxPeers+1, 0)...), errTooBig},
		{"a million nodes answered", false, pushPull(1<<20, 0), errTooBig},
		{"user state", true, labeled("L", pushPull(1, 1)...), errRefused},
		{"head as array", true, labeled("L", array...), errRefused},
		{"nodes as text", true, labeled("L", text...), errTooBig},
		{"nodes twice", true, labeled("L", double...), errTooBig},
		{"user message", true, labeled("L", 8, 0x80), errRefused},
		{"compressed", true, labeled("L", 9, 0x80), errRefused},
		{"encrypted", true, labeled("L", 10, 0, 0xff, 0xff, 0xff), errRefused},
		{"ack unasked", true, labeled("L", msgAck), errRefused},
		{"compressed answer", false, []byte{9, 0x80}, errRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Write(c.b) // cut short when the reader has seen enough
				there.Close()
			}()
			s := newStream(here, "L", c.inbound, func(*stream) {})
			defer s.Close()
			got, err := io.ReadAll(s)
			want := c.b
			if c.want != nil {
				want = nil // nothing is handed on
			}
			if !errors.Is(err, c.want) || string(got) != string(want) {
				t.Errorf("got %q, %v; want %q, %v", got, err, want, c.want)
			}
		})
	}
}

func TestStreamIsLimited(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_, _ = there.Write(labeled("L", pushPull(1, 0)...))
		chunk := make([]byte, 4096)
		for {
			if _, err := there.Write(chunk); err != nil {
				return
			}
		}
	}()
	s := newStream(here, "L", true, func(*stream) {})
	defer s.Close()
	n, err := io.Copy(io.Discard, s)
	if !errors.Is(err, errTooBig) || n != maxStreamBytes {
		t.Errorf("read %d bytes, %v; want %d and %v", n, err, maxStreamBytes, errTooBig)
	}
}

func TestStreamClosesItselfAfterAFailedWrite(t *testing.T) {
	here, there := net.Pipe()
	there.Close()
	released := 0
	s := newStream(here, "L", false, func(*stream) { released++ })
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("write to a closed pipe: got no error")
	}
	if released != 1 {
		t.Errorf("released %d times after a failed write, want once", released)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) || released != 1 {
		t.Errorf("second close: %v, released %d times; want net.ErrClosed, once", err, released)
	}
}

func TestStreamsAtOnceAreLimited(t *testing.T) {
	tr := newTransport(&Config{}, newTable(nil, nil), newView("a", newTable(nil, nil), newLogWriter(nil)), newLogWriter(nil))
	var open []net.Conn
	adopt := func(inbound bool) error {
		here, there := net.Pipe()
		defer there.Close()
		s, err := tr.adopt(here, inbound)
		if err == nil {
			open = append(open, s)
		}
		return err
	}
	for i := range maxStreams {
		if err := adopt(true); err != nil {
			t.Fatalf("inbound stream %d: %v", i+1, err)
		}
	}
	if err := adopt(true); err == nil {
		t.Errorf("inbound stream %d was adopted, want an error", maxStreams+1)
	}
	if err := adopt(false); err != nil {
		t.Errorf("a stream of one's own among too many inbound ones: %v", err)
	}
	_ = open[0].Close()
	if err := adopt(true); err != nil {
		t.Errorf("an inbound stream after one was closed: %v", err)
	}
	tr.close()
	if err := adopt(false); !errors.Is(err, errShutdown) {
		t.Errorf("a stream after the end: %v, want errShutdown", err)
	}
	if got := len(tr.streams); got != 0 {
		t.Errorf("%d streams are on the books after the end, want 0", got)
	}
}

// Garbage must neither end the node nor keep it from its peers.
func TestGarbage(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	dir := newDirectory()
	a := start(t, dir, config("a", dir, peersOf("a", "b")))
	packets, err := net.Dial("udp", a.port.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for range 2000 {
		body := make([]byte, 1+random.IntN(200))
		for i := range body {
			body[i] = byte(random.Uint32())
		}
		body[0] = byte(random.IntN(14)) // a type of message that exists
		_, _ = packets.Write(labeled("test", body...))
	}
	for range maxStreams / 2 { // half-open connections
		conn, err := net.Dial("tcp", a.port.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	start(t, dir, config("b", dir, peersOf("a", "b")))
	eventually(t, 5*time.Second, "a finds b (seed 7)", func() bool { return len(a.up()) == 1 })
}
