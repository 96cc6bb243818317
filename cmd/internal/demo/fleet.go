package demo

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// maxProcs bounds how many processes one fleet ever starts.
const maxProcs = MaxNodes + maxReturns

// endTime is how long killed processes may take to be dead.
const endTime = 10 * time.Second

// proc is one process of the fleet. A node that is restarted is another proc.
type proc struct {
	*process
	number   int
	name     string
	orders   *lineWriter
	ready    bool   // said hello
	killed   bool   // by us
	bye      bool   // ended as ordered
	gone     bool   // dead, and all it said is read
	failure  string // what it said of why it ends
	noPort   bool   // and that is because its port is taken
	acquired int
	base     counters // what it had sent when the first lock was had
	sent     counters // what it has sent, as it last said
}

// tell sends an order. It cannot block for long: a worker reads at once, and no
// more than one answer to it is ever under way. An error is of no interest here:
// a worker that cannot be told is dead, and its end tells that.
func (p *proc) tell(o order) { _ = p.orders.write(o) }

// died says how a process ended that was to live.
func (p *proc) died(err error) error {
	if p.failure != "" {
		err = errors.New(p.failure)
	}
	if err == nil {
		err = errors.New("it just ended")
	}
	return fmt.Errorf("demo: process %s (pid %d) ended by itself: %w", p.name, p.pid, err)
}

// event is what one process said, or that it is gone.
type event struct {
	proc   *proc
	at     time.Duration // when it was read
	report report
	gone   bool
	err    error // of gone: how it ended
}

// fleet is the processes of one cluster. Its owner reads events until all
// processes are gone; see end.
type fleet struct {
	launch func() (*process, error)
	now    func() time.Duration
	worker workerConfig // for all, but for its name and number
	events chan event
	procs  []*proc // by number
	alive  int     // processes that are not gone
}

func newFleet(launch func() (*process, error), now func() time.Duration, worker workerConfig) *fleet {
	return &fleet{launch: launch, now: now, worker: worker, events: make(chan event, 64)}
}

// spawn starts a process and gives it its orders; its hello comes as an event.
func (f *fleet) spawn(name string) (*proc, error) {
	if len(f.procs) >= maxProcs {
		return nil, fmt.Errorf("demo: %d processes were started already", len(f.procs))
	}
	started, err := f.launch()
	if err != nil {
		return nil, err
	}
	p := &proc{process: started, number: len(f.procs), name: name, orders: &lineWriter{w: started.in}}
	f.procs = append(f.procs, p)
	f.alive++
	go f.read(p)
	config := f.worker
	config.Name, config.Number = name, p.number
	p.tell(order{Kind: orderStart, Worker: &config})
	return p, nil
}

// read passes on what p says until it is dead. The end of its output is the
// first sign of its death, so what it said last is passed on before.
func (f *fleet) read(p *proc) {
	err := readLines(p.out, func(r report) { f.events <- event{proc: p, at: f.now(), report: r} })
	if err != nil {
		// Not understood, so not trusted any longer.
		err = errors.Join(err, p.kill())
		_, _ = io.Copy(io.Discard, p.out)
	}
	err = errors.Join(err, p.wait())
	f.events <- event{proc: p, at: f.now(), gone: true, err: err}
}

// note keeps the books on e. Whoever receives from events calls it.
func (f *fleet) note(e event) {
	p := e.proc
	if e.gone {
		p.gone = true
		f.alive--
		_ = p.in.Close() // nobody reads it
		return
	}
	if e.report.Counters != nil {
		p.sent = *e.report.Counters
	}
	switch e.report.Kind {
	case kindHello:
		p.ready = true
	case kindBye:
		p.bye = true
	case kindFailed:
		p.failure, p.noPort = e.report.Error, e.report.PortTaken
	}
}

// each calls do with all processes that are not gone.
func (f *fleet) each(do func(*proc)) {
	for _, p := range f.procs {
		if !p.gone {
			do(p)
		}
	}
}

// end kills all that is left and waits until it is dead. Nothing may be received
// from events by others any longer.
func (f *fleet) end() error {
	f.each(func(p *proc) {
		p.killed = true
		_ = p.kill() // it may be dead already, which is as good
	})
	limit := time.NewTimer(endTime)
	defer limit.Stop()
	for f.alive > 0 {
		select {
		case e := <-f.events:
			f.note(e)
		case <-limit.C:
			var pids []int
			f.each(func(p *proc) { pids = append(pids, p.pid) })
			return fmt.Errorf("demo: processes %v do not die; end them by hand", pids)
		}
	}
	return nil
}
