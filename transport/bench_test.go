package transport

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/treequorum/dmutex/node"
)

// echo answers each request.
type echo struct {
	recorder
	tr Transport
}

func (e *echo) Deliver(m node.Message) { e.tr.Send(grant(m.To, m.From, int(m.ID.Counter))) }

// signal counts deliveries and reports each.
type signal struct {
	recorder
	got chan struct{}
	n   atomic.Int64
}

func (s *signal) Deliver(node.Message) {
	s.n.Add(1)
	select {
	case s.got <- struct{}{}:
	default:
	}
}

// pair is two connected nodes for benchmarks.
func pair(b *testing.B, ha, hb Handler, setB func(Transport)) *TCP {
	b.Helper()
	port, err := Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	member, err := NewTCP(TCPConfig{Name: "b", Port: port})
	if err != nil {
		b.Fatal(err)
	}
	setB(member)
	client, err := NewTCP(TCPConfig{Name: "a", Client: true, Peers: map[string]string{"b": port.Addr().String()}})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(member.Start(hb), client.Start(ha)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		closeNow(b, client)
		closeNow(b, member)
		if err := port.Close(); err != nil {
			b.Error(err)
		}
	})
	return client
}

func BenchmarkEchoRoundTrip(b *testing.B) {
	ha, hb := &signal{got: make(chan struct{}, 1)}, &echo{}
	a := pair(b, ha, hb, func(t Transport) { hb.tr = t })
	m := request("a", "b", 1)
	b.ReportAllocs()
	for b.Loop() {
		a.Send(m)
		<-ha.got
	}
}

func BenchmarkThroughput(b *testing.B) {
	hb := &signal{got: make(chan struct{}, 1)}
	a := pair(b, &signal{}, hb, func(Transport) {})
	m := request("a", "b", 1)
	b.ReportAllocs()
	sent := int64(0)
	for b.Loop() {
		a.Send(m)
		for sent++; sent-hb.n.Load() > 512; {
			<-hb.got // stay below the bound of the queue: nothing is lost
		}
	}
	s := a.Stats()
	b.ReportMetric(float64(s.FramesOut)/float64(max(s.Writes, 1)), "frames/write")
	b.ReportMetric(float64(s.DroppedFull+s.DroppedStale), "dropped")
}
