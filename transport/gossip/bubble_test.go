package gossip

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// within lets virtual time pass until ok, at most limit, in steps.
func within(t *testing.T, limit, step time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(step) { // virtual
		synctest.Wait()
		if ok() {
			return
		}
		if time.Since(began) >= limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// agree waits until all running nodes see one another and nobody else.
func (c *memCluster) agree(t *testing.T, limit time.Duration) {
	t.Helper()
	var running []string
	for name := range c.nodes {
		running = append(running, name)
	}
	slices.Sort(running)
	for name, n := range c.nodes {
		within(t, limit, 100*time.Millisecond, name+" sees exactly the others that run", func() bool {
			return slices.Equal(n.up(), without(running, name))
		})
	}
}

// memberlistGoroutines counts goroutines that memberlist started or is called from.
func memberlistGoroutines() int {
	buf := make([]byte, 4<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	count := 0
	for one := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(one, "hashicorp/memberlist.") {
			count++
		}
	}
	return count
}

func TestStartedHalfAnHourApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMemCluster("a", "b", "c")
		defer c.crashAll()
		c.start(t, "a", 1, TimingLAN)
		time.Sleep(30 * time.Minute) // virtual
		c.start(t, "b", 2, TimingLAN)
		c.agree(t, 5*time.Second)
		time.Sleep(10 * time.Minute) // virtual
		c.start(t, "c", 3, TimingLAN)
		c.agree(t, 5*time.Second)
	})
}

func TestSplitForLongHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMemCluster("a", "b", "c", "d", "e")
		defer c.crashAll()
		for i, name := range c.names {
			c.start(t, name, uint16(i+1), TimingLAN)
		}
		c.agree(t, 10*time.Second)
		c.net.setDeaf(memAddr(5), true)
		within(t, 2*time.Minute, time.Second, "a and e have given one another up", func() bool {
			return !slices.Contains(c.nodes["a"].up(), "e") && len(c.nodes["e"].up()) == 0
		})
		// Long enough for memberlist to forget that e was ever there.
		time.Sleep(10 * time.Minute) // virtual
		c.net.setDeaf(memAddr(5), false)
		c.agree(t, 15*time.Second)
	})
}

// A member that comes back at another address must not be taken for a second
// one of the same name, however soon it is and whatever the others still believe.
func TestMovesAtAnyMoment(t *testing.T) {
	for _, away := range []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newMemCluster("a", "b", "c", "d", "e")
				defer c.crashAll()
				for i, name := range c.names {
					c.start(t, name, uint16(i+1), TimingLAN)
				}
				c.agree(t, 10*time.Second)
				c.crash("b")
				time.Sleep(away) // virtual
				c.start(t, "b", 99, TimingLAN)
				c.agree(t, 30*time.Second)
				// And it stays: nobody goes by the address of before.
				time.Sleep(2 * time.Minute) // virtual
				c.agree(t, 0)
				if got := c.lines.with("Conflicting address"); len(got) != 0 {
					t.Errorf("a move is taken for a conflict: %q", got)
				}
				if got := c.lines.with("memberlist:"); len(got) == 0 {
					t.Error("nothing of memberlist's was logged, so the check above sees nothing")
				}
			})
		})
	}
}

func TestSuspectBeforeDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMemCluster("a", "b", "c")
		defer c.crashAll()
		for i, name := range c.names {
			c.start(t, name, uint16(i+1), TimingLAN)
		}
		c.agree(t, 10*time.Second)
		time.Sleep(time.Minute) // virtual
		for name, n := range c.nodes {
			for _, m := range n.g.Members() {
				if m.State != StateAlive {
					t.Errorf("a quiet minute: %s has %+v, want alive", name, m)
				}
			}
		}
		c.crash("c")
		var seen []State
		within(t, 2*time.Minute, 50*time.Millisecond, "a gives c up", func() bool {
			state := c.nodes["a"].g.Members()[2].State
			if len(seen) == 0 || seen[len(seen)-1] != state {
				seen = append(seen, state)
			}
			return state == StateDead
		})
		if want := []State{StateAlive, StateSuspect, StateDead}; !slices.Equal(seen, want) {
			t.Errorf("states of c at a: got %v, want %v", seen, want)
		}
	})
}

func TestCloseAmongBlackHoles(t *testing.T) {
	for _, timing := range []Timing{TimingLocal, TimingLAN, TimingWAN} {
		t.Run(timing.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newMemCluster("a", "b", "c", "d", "e")
				defer c.crashAll()
				for i, name := range c.names {
					c.start(t, name, uint16(i+1), timing)
				}
				c.agree(t, 40*time.Second)
				for number := uint16(2); number <= 5; number++ {
					c.net.setDeaf(memAddr(number), true)
				}
				// Into the middle of probes, pings for others and joins that hang.
				time.Sleep(7 * time.Second) // virtual
				a := c.nodes["a"]
				others := memberlistGoroutinesWithout(t, c, "a")
				began := time.Now()
				if err := a.g.Close(context.Background()); err != nil {
					t.Fatalf("close: %v", err)
				}
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("Close took %v, want at most 500ms", took)
				}
				a.port.Close()
				delete(c.nodes, "a")
				if got := others(); got != 0 {
					t.Errorf("%d goroutines of memberlist are left after Close, want 0", got)
				}
			})
		})
	}
}

func TestCloseHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMemCluster("a")
		defer c.crashAll()
		a := c.start(t, "a", 1, TimingWAN)
		conn, err := c.net.dialer(memAddr(9))(t.Context(), memAddr(1))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait() // the node reads from it now
		began := time.Now()
		if err := a.g.Close(context.Background()); err != nil {
			t.Fatalf("close: %v", err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes, want the connection to be closed", n)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("an idle connection held Close up for %v, want not at all", took)
		}
		if _, err := c.net.dialer(memAddr(9))(t.Context(), memAddr(1)); err != nil {
			t.Fatal(err)
		}
		if got := len(a.port.conns); got != 1 {
			t.Errorf("%d connections wait after Close, want 1: they belong to the port", got)
		}
	})
}

// memberlistGoroutinesWithout ends all nodes but one, so that what is left of
// memberlist is this one's. It returns a function that counts.
func memberlistGoroutinesWithout(t *testing.T, c *memCluster, name string) func() int {
	t.Helper()
	for _, other := range c.names {
		if other != name {
			c.crash(other)
		}
	}
	synctest.Wait()
	if memberlistGoroutines() == 0 {
		t.Fatal("the counter of goroutines sees none of a node that runs")
	}
	return func() int {
		synctest.Wait()
		return memberlistGoroutines()
	}
}
