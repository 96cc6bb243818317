package transport

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treequorum/dmutex/node"
)

// sample is a message of a type with small, distinct values.
func sample(typ node.MessageType) node.Message {
	return onlyFieldsOf(node.Message{
		Type: typ, From: "a", To: "b", FromIncarnation: node.Incarnation{Start: 1, Random: 2},
		ToIncarnation: node.Incarnation{Start: 3, Random: 4}, Fingerprint: 5, Timestamp: 6, Sent: 7,
		Echo: 8, Session: 9, Vote: node.VoteTree, Lock: "lock", ID: node.RequestID{Incarnation: node.Incarnation{Start: 10, Random: 11}, Counter: 300},
		RequestTime: 70000, Holding: true, Label: "me", Number: 1 << 40, Token: 13, Floor: 14, OK: true,
		Ahead: 15, Owner: "c", OwnerHolds: true, Since: 16, State: node.StateHolding, NeedMajority: true,
		Other: node.Incarnation{Start: 17, Random: 18}, Round: 19, Reason: node.ReasonQueueFull,
	})
}

// TestGolden pins the bytes of every type: a change of them is a new protocol
// version.
func TestGolden(t *testing.T) {
	golden := map[node.MessageType]string{
		node.MsgRequest:       "dc001101a161a16201020304050607a46c6f636b0a0bcd012cce00011170c3a26d65",
		node.MsgGrant:         "dc001202a161a162010203040506080901a46c6f636b0a0bcd012ccf00000100000000000e",
		node.MsgQueued:        "dc001403a161a162010203040506080901a46c6f636b0a0bcd012c0fa163c310",
		node.MsgInquire:       "dc001104a161a162010203040506080901a46c6f636b0a0bcd012ccf0000010000000000",
		node.MsgYield:         "9f05a161a16201020304050607a46c6f636b0a0bcd012ccf0000010000000000",
		node.MsgRelease:       "9e06a161a16201020304050607a46c6f636b0a0bcd012c",
		node.MsgValidate:      "dc001107a161a162010203040506080901a46c6f636b0a0bcd012ccf0000010000000000",
		node.MsgValidateReply: "dc001008a161a16201020304050607a46c6f636b0a0bcd012ccf000001000000000003",
		node.MsgKeepAlive:     "9b09a161a16201020304050607c3",
		node.MsgKeepAliveAck:  "9e0aa161a1620102030405060809011112",
		node.MsgCommit:        "9f0ba161a16201020304050607a46c6f636b0a0bcd012c0d",
		node.MsgCommitted:     "dc00130ca161a162010203040506080901a46c6f636b0a0bcd012c0dc30e",
		node.MsgReadFloors:    "9b0da161a1620102030405060713",
		node.MsgFloors:        "9f0ea161a16201020304050608090113c30e",
		node.MsgNotReady:      "dc00130fa161a162010203040506080901a46c6f636b0a0bcd012c051112",
		node.MsgGoodbye:       "9a10a161a16201020304050607",
	}
	for _, typ := range allTypes() {
		m := sample(typ)
		got, err := AppendMessage(nil, &m)
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		if want := golden[typ]; hex.EncodeToString(got) != want {
			t.Errorf("%v encodes as\n%x, want\n%s", typ, got, want)
		}
		back, err := DecodeMessage(got, nil)
		if err != nil || back != m {
			t.Errorf("%v decodes as %+v, %v, want %+v", typ, back, err, m)
		}
	}
	if len(golden) != len(allTypes()) {
		t.Errorf("%d golden messages for %d types", len(golden), len(allTypes()))
	}
}

// TestRoundTrip: what is encoded decodes to the same, for every type.
func TestRoundTrip(t *testing.T) {
	for _, typ := range allTypes() {
		t.Run(typ.String(), func(t *testing.T) {
			var in Interner
			var enc Encoder
			rapid.Check(t, func(t *rapid.T) {
				m := genMessage(typ).Draw(t, "message")
				prefix := []byte("kept")
				out, err := enc.Append(prefix, &m)
				if err != nil {
					t.Fatalf("encode %+v: %v", m, err)
				}
				if !bytes.HasPrefix(out, prefix) {
					t.Fatalf("the caller's bytes became %x", out[:4])
				}
				back, err := DecodeMessage(out[len(prefix):], &in)
				if err != nil || back != m {
					t.Fatalf("got %+v, %v\nwant %+v", back, err, m)
				}
			})
		})
	}
}

// TestDecodeIsBounded feeds what is known to bring the msgpack library down, alone
// and inside of an otherwise proper message: an error each, and next to no memory.
func TestDecodeIsBounded(t *testing.T) {
	m := sample(node.MsgRequest)
	valid, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{
		"array32 of 2^32-1":  {0xdd, 0xff, 0xff, 0xff, 0xff},
		"array16 of 65535":   {0xdc, 0xff, 0xff},
		"str32 of 2^32-1":    {0xdb, 0xff, 0xff, 0xff, 0xff, 'x'},
		"str16 of 65535":     {0xda, 0xff, 0xff, 'x'},
		"bin32 of 2^32-1":    {0xc6, 0xff, 0xff, 0xff, 0xff, 'x'},
		"map32 of 2^32-1":    {0xdf, 0xff, 0xff, 0xff, 0xff},
		"ext32 of 2^32-1":    {0xc9, 0xff, 0xff, 0xff, 0xff, 1},
		"nesting of 60,000":  bytes.Repeat([]byte{0x91}, 60_000),
		"nesting of 100,000": bytes.Repeat([]byte{0x91}, 100_000),
		"reserved code":      {0xc1},
		"cut fixext":         {0xd8, 1, 2},
		"nil":                {0xc0},
		"negative fixnum":    {0xff},
		"int64":              {0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"float64":            {0xcb, 0, 0, 0, 0, 0, 0, 0, 0},
		"fixmap":             {0x81, 0x01, 0x01},
		"empty map":          {0x80},
		"nothing":            {},
	}
	for name, value := range values {
		// In the place of the sender's name, the first text, with the rest behind.
		inside := append(append(bytes.Clone(valid[:4]), value...), valid[6:]...)
		for where, payload := range map[string][]byte{"alone": value, "inside": inside} {
			grown := heapGrowth(func() {
				if got, err := DecodeMessage(payload, nil); !errors.Is(err, ErrInvalidFrame) {
					t.Errorf("%s %s: got %+v, %v, want ErrInvalidFrame", name, where, got, err)
				}
			})
			if grown > 64<<10 {
				t.Errorf("%s %s: allocated %d bytes for %d, want at most 64 KiB", name, where, grown, len(payload))
			}
		}
	}
}

// heapGrowth is how many bytes f allocates.
func heapGrowth(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecodeRefuses lists single faults in a proper message.
func TestDecodeRefuses(t *testing.T) {
	encode := func(typ node.MessageType, change func(m *node.Message)) []byte {
		m := sample(typ)
		if change != nil {
			change(&m)
		}
		out, err := AppendMessage(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	replace := func(p []byte, old, with string) []byte {
		if bytes.Count(p, []byte(old)) != 1 {
			t.Fatalf("%x does not have %x once", p, old)
		}
		return bytes.Replace(p, []byte(old), []byte(with), 1)
	}
	request := encode(node.MsgRequest, nil)
	typ := func(n byte) []byte { p := bytes.Clone(request); p[3] = n; return p }
	u64 := func(n uint64) string { return string(binary.BigEndian.AppendUint64([]byte{0xcf}, n)) }
	cases := []struct {
		name, want string
		payload    []byte
	}{
		{"trailing byte", "behind the value", append(bytes.Clone(request), 0)},
		{"cut", "bytes", request[:len(request)-1]},
		{"unknown type", "type 17 is not known", typ(17)},
		{"type 0", "type 0 is not known", typ(0)},
		{"type of another length", "length", typ(byte(node.MsgGoodbye))},
		{"not an array", "array", []byte{0x01}},
		{"empty array", "type", []byte{0x90}},
		{"control character", "control character", replace(request, "lock", "lo\nk")},
		{"C1 control character", "control character", replace(request, "lock", "lo\u0085")},
		{"bad UTF-8", "UTF-8", replace(request, "lock", "lo\xff\xfe")},
		{"cut UTF-8", "UTF-8", replace(request, "lock", "loc\xe4")},
		{"empty name", "from has 0 bytes", replace(request, "\xa1a", "\xa0")},
		{"long name", "from has 129 bytes", replace(request, "\xa1a", "\xd9\x81"+strings.Repeat("n", 129))},
		{"long lock", "lock has 256 bytes", replace(request, "\xa4lock", "\xda\x01\x00"+strings.Repeat("n", 256))},
		{"long label", "label has 129 bytes", replace(request, "\xa2me", "\xd9\x81"+strings.Repeat("n", 129))},
		{"number for a name", "from", replace(request, "\xa1a", "\x01")},
		{"name for a number", "request time", replace(request, "\xce\x00\x01\x11\x70", "\xa4abcd")},
		{"array for a number", "request time", replace(request, "\xce\x00\x01\x11\x70", "\x91\x01")},
		{"timestamp too high", "request time", replace(request, "\xce\x00\x01\x11\x70", u64(1<<62+1))},
		{"send time too high", "send time", encodeWith(t, node.MsgGoodbye, 9, u64(1<<63))},
		{"ahead too high", "ahead", replace(encode(node.MsgQueued, func(m *node.Message) { m.Ahead = 1<<32 - 1 }), "\xce\xff\xff\xff\xff", u64(1<<32))},
		{"vote too high", "vote", encodeWith(t, node.MsgKeepAliveAck, 11, "\x03")},
		{"state 0", "state", encodeWith(t, node.MsgValidateReply, 15, "\x00")},
		{"state 4", "state", encodeWith(t, node.MsgValidateReply, 15, "\x04")},
		{"reason 0", "reason", encodeWith(t, node.MsgNotReady, 16, "\x00")},
		{"reason 8", "reason", encodeWith(t, node.MsgNotReady, 16, "\x08")},
		{"number for a flag", "need majority", encodeWith(t, node.MsgKeepAlive, 10, "\x01")},
	}
	for _, c := range cases {
		m, err := DecodeMessage(c.payload, nil)
		if !errors.Is(err, ErrInvalidFrame) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, error %v, want ErrInvalidFrame with %q", c.name, m, err, c.want)
		}
		if m != (node.Message{}) {
			t.Errorf("%s: a message came back with the error: %+v", c.name, m)
		}
	}
}

// encodeWith is a sample whose value number index is replaced.
func encodeWith(t *testing.T, typ node.MessageType, index int, value string) []byte {
	t.Helper()
	m := sample(typ)
	p, err := AppendMessage(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	off := 3 // the header of an array16
	if p[0] != 0xdc {
		off = 1
	}
	for range index {
		size, _, err := checkValue(p[off:])
		if err != nil {
			t.Fatal(err)
		}
		off += size
	}
	size, _, err := checkValue(p[off:])
	if err != nil {
		t.Fatal(err)
	}
	return append(append(bytes.Clone(p[:off]), value...), p[off+size:]...)
}

// TestEncodeRefuses: nothing leaves that another node would close the connection
// for.
func TestEncodeRefuses(t *testing.T) {
	cases := []struct {
		want   string
		change func(m *node.Message)
	}{
		{"type", func(m *node.Message) { m.Type = 0 }},
		{"type", func(m *node.Message) { m.Type = 17 }},
		{"from", func(m *node.Message) { m.From = "" }},
		{"to", func(m *node.Message) { m.To = strings.Repeat("x", MaxNodeName+1) }},
		{"lock", func(m *node.Message) { m.Lock = "" }},
		{"lock", func(m *node.Message) { m.Lock = strings.Repeat("x", MaxLockName+1) }},
		{"lock", func(m *node.Message) { m.Lock = "a\x00" }},
		{"label", func(m *node.Message) { m.Label = "\xff" }},
		{"timestamp", func(m *node.Message) { m.Timestamp = -1 }},
		{"timestamp", func(m *node.Message) { m.Timestamp = node.MaxTimestamp + 1 }},
		{"send time", func(m *node.Message) { m.Sent = -1 }},
		{"sender's incarnation", func(m *node.Message) { m.FromIncarnation.Start = -1 }},
	}
	for _, c := range cases {
		m := sample(node.MsgRequest)
		c.change(&m)
		out, err := AppendMessage([]byte("kept"), &m)
		if !errors.Is(err, ErrInvalidMessage) || !strings.Contains(err.Error(), c.want+" ") {
			t.Errorf("%+v: error %v, want ErrInvalidMessage about %s", m, err, c.want)
		}
		if string(out) != "kept" {
			t.Errorf("%+v: the buffer became %q, want it as it was", m, out)
		}
	}
}

// TestSteadyStateAllocations: with reused memory neither direction allocates.
func TestSteadyStateAllocations(t *testing.T) {
	var enc Encoder
	var in Interner
	buf := make([]byte, 0, 1024)
	for _, typ := range allTypes() {
		m := sample(typ)
		var err error
		if buf, err = enc.appendFrame(buf[:0], &m); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { buf, _ = enc.appendFrame(buf[:0], &m) }); n != 0 {
			t.Errorf("encoding %v allocates %v times, want 0", typ, n)
		}
		if n := testing.AllocsPerRun(100, func() { m, err = DecodeMessage(buf[frameHeader:], &in) }); n != 0 || err != nil {
			t.Errorf("decoding %v allocates %v times, want 0 (error %v)", typ, n, err)
		}
	}
}

// TestInternerIsBounded: endless new names do not pile up.
func TestInternerIsBounded(t *testing.T) {
	var in Interner
	for i := range 10_000 {
		name := strings.Repeat("x", 100) + string(rune('a'+i%26)) + string(rune('0'+i/26%500))
		if got := in.text([]byte(name)); got != name {
			t.Fatalf("got %q, want %q", got, name)
		}
		total := 0
		for s := range in.seen {
			total += len(s)
		}
		if total > internBytes || total != in.size {
			t.Fatalf("after %d names it holds %d bytes (counted as %d), want at most %d", i+1, total, in.size, internBytes)
		}
	}
}

// FuzzDecode: any bytes give a message or an error, in bounded memory; and what is
// taken for a message encodes to a message that is the same.
func FuzzDecode(f *testing.F) {
	for _, typ := range allTypes() {
		m := sample(typ)
		p, err := AppendMessage(nil, &m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add(bytes.Repeat([]byte{0x91}, 20))
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, err := decodeHello(p); err != nil && !errors.Is(err, ErrInvalidFrame) {
			t.Fatalf("hello: error %v, want ErrInvalidFrame", err)
		}
		m, err := DecodeMessage(p, nil)
		if err != nil {
			if !errors.Is(err, ErrInvalidFrame) {
				t.Fatalf("error %v, want ErrInvalidFrame", err)
			}
			return
		}
		again, err := AppendMessage(nil, &m)
		if err != nil {
			t.Fatalf("decoded %+v, which does not encode: %v", m, err)
		}
		if back, err := DecodeMessage(again, nil); err != nil || back != m {
			t.Fatalf("got %+v, %v, want %+v", back, err, m)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var enc Encoder
	m := request("node-1", "node-2", 12345)
	buf, err := enc.appendFrame(nil, &m)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = enc.appendFrame(buf[:0], &m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	m := request("node-1", "node-2", 12345)
	p, err := AppendMessage(nil, &m)
	if err != nil {
		b.Fatal(err)
	}
	var in Interner
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMessage(p, &in); err != nil {
			b.Fatal(err)
		}
	}
}
