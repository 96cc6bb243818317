package demo

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treequorum/dmutex/dmutex"
)

// deskNode is a node with one lease at a time, moved by the test.
type deskNode struct {
	lease    *deskLease
	lockErr  error
	closed   atomic.Bool
	closeErr error
}

type deskLease struct {
	ctx       context.Context
	lose      context.CancelFunc
	until     atomic.Int64
	unlocked  int
	unlockErr error
}

func newDeskNode() *deskNode {
	ctx, lose := context.WithCancel(context.Background())
	n := &deskNode{lease: &deskLease{ctx: ctx, lose: lose}}
	n.lease.until.Store(int64(time.Second))
	return n
}

func (n *deskNode) lock(ctx context.Context) (lease, error) {
	if n.lockErr != nil {
		return nil, n.lockErr
	}
	if n.lease.unlocked > 0 {
		<-ctx.Done() // once is enough
		return nil, ctx.Err()
	}
	return n.lease, nil
}

func (n *deskNode) tree() (root, drawn string)    { return "r", "drawn" }
func (n *deskNode) close(context.Context) error   { n.closed.Store(true); return n.closeErr }
func (l *deskLease) Context() context.Context     { return l.ctx }
func (l *deskLease) BootDeadline() time.Duration  { return time.Duration(l.until.Load()) }
func (l *deskLease) Unlock(context.Context) error { l.unlocked++; return l.unlockErr }

// counters are zero once the node is closed, as those of the library are.
func (n *deskNode) counters() counters {
	if n.closed.Load() {
		return counters{}
	}
	return counters{LockMessages: 4, KeepAlives: 2}
}

// desk is a judge's end of one worker's pipe, for one test.
type desk struct {
	t       *testing.T
	node    *deskNode
	orders  *lineWriter
	in      *io.PipeWriter
	reports chan report
	ended   chan error
}

// newDesk runs a worker. Only inside a bubble.
func newDesk(t *testing.T) *desk {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	d := &desk{
		t: t, node: newDeskNode(), orders: &lineWriter{w: inW}, in: inW,
		reports: make(chan report, 1000), ended: make(chan error, 1),
	}
	begin := time.Now()
	go func() {
		err := runWorker(context.Background(), inR, outW,
			func(workerConfig) (node, error) { return d.node, nil }, func() time.Duration { return time.Since(begin) })
		_, _ = inR.Close(), outW.Close()
		d.ended <- err
	}()
	go func() {
		_ = readLines(outR, func(r report) {
			if r.Kind != kindStats {
				d.reports <- r
			}
		})
	}()
	return d
}

func (d *desk) tell(orders ...order) {
	d.t.Helper()
	for _, o := range orders {
		if err := d.orders.write(o); err != nil {
			d.t.Fatalf("order %s: %v", o.Kind, err)
		}
	}
}

func (d *desk) hear(kind string) report {
	d.t.Helper()
	synctest.Wait()
	select {
	case r := <-d.reports:
		if r.Kind != kind {
			d.t.Fatalf("the worker said %+v, want %s", r, kind)
		}
		return r
	case <-time.After(time.Second):
		d.t.Fatalf("the worker said nothing for a second, want %s", kind)
		return report{}
	}
}

// silent checks that nothing more is said for a while.
func (d *desk) silent(why string) {
	d.t.Helper()
	select {
	case r := <-d.reports:
		d.t.Fatalf("the worker said %+v %s", r, why)
	case <-time.After(50 * time.Millisecond):
	}
}

// begin brings the worker inside its first hold.
func (d *desk) begin() report {
	d.t.Helper()
	d.tell(order{Kind: orderStart, Worker: &workerConfig{Name: "n1", Lock: "demo", Seed: 1}})
	if r := d.hear(kindHello); r.Root != "r" || r.Tree != "drawn" {
		d.t.Errorf("hello is %+v, want the root and the tree", r)
	}
	d.silent("before it was told to go")
	d.tell(order{Kind: orderGo})
	return d.hear(kindEnter)
}

func (d *desk) end() error {
	d.t.Helper()
	select {
	case err := <-d.ended:
		return err
	case <-time.After(time.Minute):
		d.t.Fatal("the worker did not end within a minute")
		return nil
	}
}

func TestWorkerWaitsForTheJudgeInsideItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		enter := d.begin()
		if enter.Seq != 1 || enter.Deadline != time.Second || enter.Had < enter.Call {
			t.Errorf("enter is %+v, want hold 1 with the lease's deadline, had after the call", enter)
		}
		d.silent("before its enter was acknowledged")
		d.tell(order{Kind: orderLeft, Seq: 1}, order{Kind: orderEntered, Seq: 7})
		d.silent("after answers to what it had not said")
		d.tell(order{Kind: orderEntered, Seq: 1})
		if leave := d.hear(kindLeave); leave.Seq != 1 || leave.Deadline != time.Second {
			t.Errorf("leave is %+v, want hold 1 with the lease's deadline", leave)
		}
		d.silent("before its leave was acknowledged")
		if d.node.lease.unlocked != 0 {
			t.Error("it unlocked before its leave was acknowledged")
		}
		d.tell(order{Kind: orderStop}, order{Kind: orderLeft, Seq: 1})
		if bye := d.hear(kindBye); bye.Counters == nil || bye.Counters.LockMessages != 4 {
			t.Errorf("bye is %+v, want the counters", bye)
		}
		if err := d.end(); err != nil || !d.node.closed.Load() || d.node.lease.unlocked != 1 {
			t.Errorf("ended with %v, node closed %v, unlocked %d times; want nil, true, once", err, d.node.closed.Load(), d.node.lease.unlocked)
		}
		_ = d.in.Close()
	})
}

func TestWorkerTellsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.begin()
		d.node.lease.until.Store(int64(3 * time.Second))
		<-time.After(leaseTTL() / 8) // virtual
		if r := d.hear(kindRenew); r.Seq != 1 || r.Deadline != 3*time.Second {
			t.Errorf("renewal is %+v, want hold 1 until 3s", r)
		}
		d.silent("though the deadline did not move")
		_ = d.in.Close()
		if err := d.end(); !errors.Is(err, errOrphan) {
			t.Errorf("ended with %v, want errOrphan", err)
		}
	})
}

func TestWorkerLeavesWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.node.lease.unlockErr = &dmutex.LostError{Lock: "demo", Reason: dmutex.LossExpired}
		d.begin()
		d.node.lease.lose()
		d.silent("before its enter was acknowledged")
		before := time.Now()
		d.tell(order{Kind: orderEntered, Seq: 1})
		d.hear(kindLeave)
		if worked := time.Since(before); worked != 0 {
			t.Errorf("it worked on for %v without the lock", worked)
		}
		d.tell(order{Kind: orderLeft, Seq: 1}, order{Kind: orderStop})
		d.hear(kindBye)
		if err := d.end(); err != nil {
			t.Errorf("ended with %v, want nil: a lost lock is part of life", err)
		}
		_ = d.in.Close()
	})
}

func TestWorkerEndsWithItsPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		_ = d.in.Close()
		if err := d.end(); !errors.Is(err, errOrphan) {
			t.Errorf("with an empty pipe it ended with %v, want errOrphan", err)
		}
		d = newDesk(t)
		d.begin()
		_ = d.in.Close()
		if err := d.end(); !errors.Is(err, errOrphan) || !d.node.closed.Load() {
			t.Errorf("inside a hold it ended with %v, node closed %v; want errOrphan, true", err, d.node.closed.Load())
		}
	})
}

func TestWorkerTellsItsTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.node.lockErr = errors.New("boom")
		d.tell(order{Kind: orderStart, Worker: &workerConfig{Lock: "demo"}}, order{Kind: orderGo})
		d.hear(kindHello)
		if r := d.hear(kindFailed); !strings.Contains(r.Error, "boom") || r.PortTaken {
			t.Errorf("it said %+v, want boom, and nothing of a port", r)
		}
		if err := d.end(); !errors.Is(err, d.node.lockErr) || !d.node.closed.Load() {
			t.Errorf("ended with %v, node closed %v; want boom, true", err, d.node.closed.Load())
		}
		_ = d.in.Close()
	})
}

func TestWorkerRefusesAnotherStart(t *testing.T) {
	for _, line := range []string{"{\"kind\":\"go\"}\n", "{\"kind\":\"start\"}\n", "no JSON\n", strings.Repeat("x", maxLine+1)} {
		var out strings.Builder
		err := runWorker(t.Context(), strings.NewReader(line), &out,
			func(workerConfig) (node, error) { return newDeskNode(), nil }, func() time.Duration { return 0 })
		if err == nil || out.Len() > 0 {
			t.Errorf("after the first line %.20q: error %v, said %q; want an error and nothing", line, err, out.String())
		}
	}
}
