package transport

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treequorum/dmutex/node"
)

// timed records when each message arrived, in virtual time.
type timed struct {
	start   time.Time
	got     []string
	refused []string
}

func (h *timed) Deliver(m node.Message) {
	h.got = append(h.got, fmt.Sprintf("%d@%v", m.ID.Counter, time.Since(h.start)))
}

func (h *timed) PeerRefused(name string) {
	h.refused = append(h.refused, fmt.Sprintf("%s@%v", name, time.Since(h.start)))
}

func (h *timed) PeerMismatch(Mismatch) {}

// join starts a node that is closed at the end of the bubble.
func join(t *testing.T, n *Network, name string) (Transport, *timed) {
	t.Helper()
	h := &timed{start: time.Now()}
	tr := n.Join(name)
	if err := tr.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, tr) })
	return tr, h
}

// TestMemoryDelay: messages take as long as set, exactly, and keep their order.
func TestMemoryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{MinDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond})
		a, _ := join(t, n, "a")
		_, hb := join(t, n, "b")
		a.Send(request("a", "b", 1))
		n.SetDelay("a", "b", 5*time.Millisecond, 5*time.Millisecond)
		a.Send(request("a", "b", 2)) // would overtake
		time.Sleep(100 * time.Millisecond)
		a.Send(request("a", "b", 3))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if want := []string{"1@20ms", "2@20ms", "3@105ms"}; !slices.Equal(hb.got, want) {
			t.Errorf("got %v, want %v", hb.got, want)
		}
	})
}

// TestMemoryReorder: without order a faster message overtakes.
func TestMemoryReorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{MinDelay: 20 * time.Millisecond, Reorder: true})
		a, _ := join(t, n, "a")
		_, hb := join(t, n, "b")
		a.Send(request("a", "b", 1))
		n.SetDelay("a", "b", time.Millisecond, time.Millisecond)
		a.Send(request("a", "b", 2))
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"2@1ms", "1@20ms"}; !slices.Equal(hb.got, want) {
			t.Errorf("got %v, want %v", hb.got, want)
		}
	})
}

// TestMemoryCuts: a cut works one way and silently; an isolated node hears and says
// nothing; both can be mended.
func TestMemoryCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{})
		a, ha := join(t, n, "a")
		b, hb := join(t, n, "b")
		both := func(number int) {
			a.Send(request("a", "b", number))
			b.Send(request("b", "a", number))
			synctest.Wait()
		}
		n.SetLink("a", "b", false)
		both(1)
		n.SetLink("a", "b", true)
		n.Isolate("b", true)
		both(2)
		n.Isolate("b", false)
		both(3)
		if want := []string{"1@0s", "3@0s"}; !slices.Equal(ha.got, want) {
			t.Errorf("a got %v, want %v", ha.got, want)
		}
		if want := []string{"3@0s"}; !slices.Equal(hb.got, want) {
			t.Errorf("b got %v, want %v", hb.got, want)
		}
		if len(ha.refused)+len(hb.refused) != 0 {
			t.Errorf("a cut looks like a refusal: %v %v", ha.refused, hb.refused)
		}
	})
}

// TestMemoryRefusal: the hint takes a round trip, comes once for what is sent
// meanwhile, and not through a cut.
func TestMemoryRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{MinDelay: 10 * time.Millisecond})
		a, ha := join(t, n, "a")
		a.Send(request("a", "b", 1))
		a.Send(request("a", "b", 2))
		a.Send(grant("a", "b", 3))
		time.Sleep(time.Second)
		n.SetLink("b", "a", false)
		a.Send(request("a", "b", 4))
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"b@20ms"}; !slices.Equal(ha.refused, want) {
			t.Errorf("got %v, want %v", ha.refused, want)
		}
	})
}

// faultyRun sends 1,000 messages through a bad network and says what arrived.
func faultyRun(t *testing.T, seed uint64) (got string, arrived int) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{Seed: seed, MaxDelay: 50 * time.Millisecond, Loss: 0.1, Duplicate: 0.2, Reorder: true})
		a, _ := join(t, n, "a")
		_, hb := join(t, n, "b")
		for i := range 500 {
			a.Send(request("a", "b", i))
			time.Sleep(time.Millisecond)
		}
		n.SetFaults(0, 0)
		for i := range 500 {
			a.Send(request("a", "b", 500+i))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, arrived = strings.Join(hb.got, " "), len(hb.got)
	})
	return got, arrived
}

// TestMemoryFaultsRepeat: the same seed gives the same losses, doubles and times;
// another seed gives others.
func TestMemoryFaultsRepeat(t *testing.T) {
	one, n := faultyRun(t, 1)
	if again, _ := faultyRun(t, 1); again != one {
		t.Error("seed 1 gave two different runs")
	}
	if other, _ := faultyRun(t, 2); other == one {
		t.Error("seeds 1 and 2 gave the same run")
	}
	// 500 x 0.9 x 1.2 with faults, 500 without: 1,040 give or take.
	if n < 990 || n > 1090 {
		t.Errorf("%d messages arrived, want about 1,040", n)
	}
}

// TestMemoryBound: what is under way on one link is bounded; the oldest is lost.
func TestMemoryBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{MinDelay: time.Second, QueueMessages: 3})
		a, _ := join(t, n, "a")
		c, _ := join(t, n, "c")
		_, hb := join(t, n, "b")
		c.Send(request("c", "b", 100))
		for i := range 10 {
			a.Send(request("a", "b", i))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := []string{"100@1s", "7@1s", "8@1s", "9@1s"}; !slices.Equal(hb.got, want) {
			t.Errorf("got %v, want %v", hb.got, want)
		}
		for i := range 5 { // what has arrived does not count any more
			a.Send(request("a", "b", 10+2*i))
			a.Send(request("a", "b", 11+2*i))
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if s := a.Stats(); s.DroppedFull != 7 || len(hb.got) != 4+10 {
			t.Errorf("%d dropped and %v arrived, want 7 and 14 messages", s.DroppedFull, hb.got)
		}
	})
}

// TestMemoryNames: a name is on the network once; after Close it may come back and
// gets only what is sent then.
func TestMemoryNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{MinDelay: time.Second})
		a, _ := join(t, n, "a")
		b, hb := join(t, n, "b")
		refused := n.Join("b")
		if err := refused.Start(&timed{}); !errors.Is(err, ErrNameTaken) {
			t.Errorf("a second b: %v, want ErrNameTaken", err)
		}
		closeNow(t, refused) // must not take the first one off
		a.Send(request("a", "b", 0))
		time.Sleep(2 * time.Second)
		a.Send(request("a", "b", 1))
		b.Send(request("b", "a", 2)) // outlives its sender
		closeNow(t, b)
		_, second := join(t, n, "b")
		a.Send(request("a", "b", 3))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(hb.got, []string{"0@1s"}) || !slices.Equal(second.got, []string{"3@1s"}) {
			t.Errorf("the first b got %v, the second %v, want number 0 and number 3", hb.got, second.got)
		}
		if s := a.Stats(); s.FramesIn != 1 {
			t.Errorf("a got %d messages, want the one that b sent before it closed", s.FramesIn)
		}
	})
}
