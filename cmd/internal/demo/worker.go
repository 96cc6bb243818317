package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/treequorum/dmutex/dmutex"
)

// How a worker spends its time. It wants the lock again soon, so that the lock
// is always wanted by somebody.
const (
	minWork   = time.Millisecond
	maxWork   = 3 * time.Millisecond
	maxPause  = 30 * time.Millisecond
	statsEach = 200 * time.Millisecond
	closeTime = 5 * time.Second // for a node to close
)

// errOrphan ends a worker whose judge is gone: nobody would see what it does.
var errOrphan = errors.New("demo: the judge closed the pipe")

// lease is what a worker needs of a [dmutex.Lease].
type lease interface {
	Context() context.Context
	BootDeadline() time.Duration
	Unlock(ctx context.Context) error
}

// node is what a worker needs of a [dmutex.Node], for one lock.
type node interface {
	lock(ctx context.Context) (lease, error)
	counters() counters
	tree() (root, drawn string)
	close(ctx context.Context) error
}

// worker is the other side of the judge's pipe: one process with one node, that
// wants one lock again and again.
type worker struct {
	workerConfig
	node node
	now  func() time.Duration // CLOCK_BOOTTIME
	out  *lineWriter
	acks chan order      // the judge's answers; at most one is under way
	stop context.Context //nolint:containedctx // done when the judge says stop, or is gone
	rand *rand.Rand
	seq  uint64
}

// RunWorker runs one process of a demo: it starts a node as the first line of in
// says, and locks until in says stop. It tells the judge on out of all it does.
// It blocks until then; the end of in, or of ctx, ends it at once with an error.
func RunWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	return runWorker(ctx, in, out, startNode, dmutex.BootNow)
}

func runWorker(ctx context.Context, in io.Reader, out io.Writer,
	start func(workerConfig) (node, error), now func() time.Duration,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, stopNow := context.WithCancel(ctx)
	defer stopNow()
	w := &worker{now: now, out: &lineWriter{w: out}, acks: make(chan order, 1), stop: stop}
	control := make(chan order, 2) // start and go
	go func() {
		err := readLines(in, func(o order) {
			switch o.Kind {
			case orderStop:
				stopNow()
			case orderEntered, orderLeft:
				offer(w.acks, o)
			default:
				offer(control, o)
			}
		})
		cancel(errors.Join(errOrphan, err))
	}()
	select {
	case o := <-control:
		if o.Kind != orderStart || o.Worker == nil {
			return fmt.Errorf("demo: the first line of the pipe is %q and not %q: run dmutex demo, it starts its own processes", o.Kind, orderStart)
		}
		w.workerConfig = *o.Worker
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.rand = rand.New(rand.NewPCG(w.Seed, uint64(w.Number)))
	n, err := start(w.workerConfig)
	if err != nil {
		return w.fail(err)
	}
	w.node = n
	if err := w.serve(ctx, control); err != nil {
		return w.fail(errors.Join(err, w.close(ctx)))
	}
	return nil
}

// offer never blocks: who sends more than was asked for is not listened to.
func offer(c chan<- order, o order) {
	select {
	case c <- o:
	default:
	}
}

// fail tells the judge why this process ends, and returns the reason.
func (w *worker) fail(err error) error {
	return errors.Join(err, w.out.write(report{Kind: kindFailed, Error: err.Error(), PortTaken: portTaken(err)}))
}

// close closes the node even when ctx is done: it has to say goodbye.
func (w *worker) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return w.node.close(ctx)
}

// serve says hello, waits for the judge's go, and works until its stop.
func (w *worker) serve(ctx context.Context, control <-chan order) error {
	root, drawn := w.node.tree()
	if err := w.out.write(report{Kind: kindHello, Root: root, Tree: drawn}); err != nil {
		return err
	}
	select {
	case <-control:
	case <-w.stop.Done():
	}
	if err := w.work(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bye := w.stats(kindBye) // a closed node has no counters
	if err := w.close(ctx); err != nil {
		return fmt.Errorf("close the node: %w", err)
	}
	return w.out.write(bye)
}

// work locks, holds, unlocks and pauses until the judge says stop.
func (w *worker) work(ctx context.Context) error {
	done := make(chan struct{})
	defer func() { <-done }()
	reporting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer close(done)
		w.reportStats(reporting)
	}()
	for w.stop.Err() == nil {
		call := w.now()
		l, err := w.node.lock(w.stop)
		if err != nil {
			if w.stop.Err() != nil {
				return nil
			}
			return fmt.Errorf("lock %q: %w", w.Lock, err)
		}
		if err := w.hold(ctx, call, l); err != nil {
			return err
		}
		w.pause()
	}
	return nil
}

// reportStats keeps the judge informed: a process that is killed counts with
// what it said last.
func (w *worker) reportStats(ctx context.Context) {
	each := time.NewTicker(statsEach)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			if w.out.write(w.stats(kindStats)) != nil {
				return // the judge is gone, which the other end of the pipe tells
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) stats(kind string) report {
	c := w.node.counters()
	return report{Kind: kind, Counters: &c}
}

// hold is one time inside the lock. The judge's answer to the enter and to the
// leave are both waited for inside, see judge.
func (w *worker) hold(ctx context.Context, call time.Duration, l lease) error {
	w.seq++
	inside := report{Kind: kindEnter, Seq: w.seq, Call: call, Had: w.now(), Deadline: l.BootDeadline()}
	if err := w.out.write(inside); err != nil {
		return err
	}
	if err := w.await(ctx, l, &inside, orderEntered, nil); err != nil {
		return err
	}
	work := time.NewTimer(w.between(minWork, maxWork))
	defer work.Stop()
	if err := w.await(ctx, l, &inside, "", work.C); err != nil {
		return err
	}
	if err := w.out.write(report{Kind: kindLeave, Seq: w.seq, Deadline: l.BootDeadline()}); err != nil {
		return err
	}
	if err := w.await(ctx, l, &inside, orderLeft, nil); err != nil {
		return err
	}
	if err := l.Unlock(ctx); err != nil && !errors.Is(err, dmutex.ErrLost) {
		return fmt.Errorf("unlock %q: %w", w.Lock, err)
	}
	return nil
}

// await waits for the judge's answer, or for the end of work when that is not
// nil; a lock that is lost ends the work. Meanwhile it tells the judge whenever
// the deadline has moved on.
func (w *worker) await(ctx context.Context, l lease, inside *report, answer string, work <-chan time.Time) error {
	poll := time.NewTicker(leaseTTL() / 16)
	defer poll.Stop()
	lost := l.Context().Done()
	if work == nil {
		lost = nil
	}
	for {
		select {
		case o := <-w.acks:
			if o.Kind == answer && o.Seq == w.seq {
				return nil
			}
		case <-work:
			return nil
		case <-lost:
			return nil
		case <-poll.C:
			if d := l.BootDeadline(); d > inside.Deadline {
				inside.Deadline = d
				if err := w.out.write(report{Kind: kindRenew, Seq: w.seq, Deadline: d}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause lets others come first, or not, as chance has it.
func (w *worker) pause() {
	t := time.NewTimer(w.between(0, maxPause))
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stop.Done():
	}
}

func (w *worker) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rand.Int64N(int64(high-low)+1))
}
