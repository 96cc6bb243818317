package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/ports"
	"github.com/treequorum/dmutex/dmutex"
)

// Times and tries of a demo.
const (
	lockName       = "demo"
	maxAssemblies  = 5                // clusters started until one finds its ports free
	helloTime      = 20 * time.Second // for all processes to say hello
	firstLockTime  = 20 * time.Second // for the first lock after that
	stopTime       = 8 * time.Second  // for all to finish after the order to stop
	maxReturns     = 20               // starts of the killed process until its port is free
	returnInterval = 250 * time.Millisecond
)

// phase is what the demo does now.
type phase uint8

// The phases, in order.
const (
	phaseFirst   phase = iota // until the first lock
	phaseWhole                // until the root is killed
	phaseWithout              // until it is restarted
	phaseAgain                // until the order to stop
	phaseStop                 // until all are gone
	phaseOver
)

// race is one demo: the judge, and the clock of what happens to the processes.
type race struct {
	cfg    *Config
	launch func() (*process, error)
	now    func() time.Duration // CLOCK_BOOTTIME
	ports  func(n int) ([]string, error)
	screen *screen
	names  []string

	fleet *fleet
	judge *judge
	root  string // name of the root of the lock's tree
	tree  string // drawn
	phase phase
	timer *time.Timer   // the end of the phase
	again *time.Timer   // the next try to restart; stopped when there is none
	show  *time.Ticker  // the next status line
	begun time.Duration // when the judge read the first enter
	ended time.Duration // when all were told to stop

	victim      *proc         // the process that is killed, once it is
	killedAt    time.Duration // 0 once somebody had the lock after the kill
	restarted   *proc         // the process in its place
	restartedAt time.Duration
	returns     int // tries to restart it
	trouble     []string
}

// Run shows a demo as cfg says. It blocks until the demo is over, or ctx is done,
// and leaves no process behind. It returns the result when the demo ran to its
// end; what the result is worth, [Result.Err] says. Errors match ErrUsage,
// ErrInterrupted, or say which process could not do what.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	command, err := ownCommand(cfg.Worker...)
	if err != nil {
		return nil, err
	}
	launcher := newLauncher(command)
	defer launcher.close()
	return newRace(&cfg, launcher.launch, dmutex.BootNow).run(ctx)
}

func newRace(cfg *Config, launch func() (*process, error), now func() time.Duration) *race {
	r := &race{
		cfg: cfg, launch: launch, now: now, ports: ports.Free,
		screen: newScreen(cfg), judge: newJudge(), names: nodeNames(cfg.Nodes),
		timer: time.NewTimer(firstLockTime), again: time.NewTimer(returnInterval),
	}
	r.show = time.NewTicker(r.screen.each())
	r.again.Stop()
	return r
}

// nodeNames are n1, n2 and so on, with as many digits as the last one needs: the
// tree is laid out in the order of the names as bytes.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%0*d", len(strconv.Itoa(n)), i+1)
	}
	return names
}

// run blocks until all is over, and nothing is left.
func (r *race) run(ctx context.Context) (*Result, error) {
	defer r.timer.Stop()
	defer r.again.Stop()
	defer r.show.Stop()
	r.screen.print(fmt.Sprintf("%d processes on loopback fight for the lock %q for %v; a silent holder keeps it for %v at most; seed %d\n",
		r.cfg.Nodes, lockName, r.cfg.For, leaseTTL(), r.cfg.Seed))
	err := r.assemble(ctx)
	if err == nil {
		r.introduce()
		err = r.fight(ctx)
	}
	r.screen.clear()
	if r.fleet != nil {
		err = errors.Join(err, r.fleet.end())
	}
	if err = errors.Join(err, r.screen.err); err != nil {
		return nil, err
	}
	result := conclude(r.cfg, r.fleet, r.judge, r.ended-r.begun, r.trouble)
	result.Killed = r.victim.name
	if r.restarted != nil {
		result.Restarted = r.restarted.name
	}
	if r.cfg.JSON {
		return result, result.writeJSON(r.cfg.Stdout)
	}
	r.screen.print("\n" + result.text(r.names))
	return result, r.screen.err
}

// assemble starts a cluster. When a port was taken between its choice and its
// use, the whole cluster is started on others: each node knows all addresses.
func (r *race) assemble(ctx context.Context) error {
	for try := 1; ; try++ {
		err := r.tryAssemble(ctx)
		if err == nil {
			return nil
		}
		retry := false
		if r.fleet != nil {
			for _, p := range r.fleet.procs {
				retry = retry || p.noPort
			}
			if endErr := r.fleet.end(); endErr != nil {
				return errors.Join(err, endErr)
			}
		}
		if !retry || try == maxAssemblies {
			return err
		}
	}
}

func (r *race) tryAssemble(ctx context.Context) error {
	r.fleet = nil
	addrs, err := r.ports(r.cfg.Nodes)
	if err != nil {
		return err
	}
	peers := make([]string, r.cfg.Nodes)
	for i, name := range r.names {
		peers[i] = name + "=" + addrs[i]
	}
	r.fleet = newFleet(r.launch, r.now, workerConfig{
		Cluster: fmt.Sprintf("demo-%016x", rand.Uint64()), Lock: lockName,
		Peers: peers, Seed: r.cfg.Seed, Break: r.cfg.Break,
	})
	for _, name := range r.names {
		if _, err := r.fleet.spawn(name); err != nil {
			return err
		}
	}
	return r.awaitHellos(ctx)
}

func (r *race) awaitHellos(ctx context.Context) error {
	limit := time.NewTimer(helloTime)
	defer limit.Stop()
	for ready := 0; ready < r.cfg.Nodes; {
		select {
		case e := <-r.fleet.events:
			r.fleet.note(e)
			switch {
			case e.gone:
				return e.proc.died(e.err)
			case e.report.Kind == kindHello:
				ready++
				r.root, r.tree = e.report.Root, e.report.Tree
			}
		case <-limit.C:
			return fmt.Errorf("demo: %d of %d processes started within %v: is the machine overloaded?", ready, r.cfg.Nodes, helloTime)
		case <-ctx.Done():
			return ErrInterrupted
		}
	}
	return nil
}

// introduce says what is about to be seen, and lets the workers go.
func (r *race) introduce() {
	r.screen.print(fmt.Sprintf("\nthe tree of this lock's rotation, its root is %s:\n\n%s\n\n", r.root, strings.TrimRight(r.tree, "\n")))
	r.screen.print(fmt.Sprintf("a member that has just started cannot know what it granted before: it is in quarantine for %v, T x (1 + d)\n\n", quarantine()))
	r.fleet.each(func(p *proc) { p.tell(order{Kind: orderGo}) })
	r.timer.Reset(firstLockTime)
}

// fight is the loop of the judge, until all processes are gone.
func (r *race) fight(ctx context.Context) error {
	for r.phase != phaseOver {
		var err error
		select {
		case e := <-r.fleet.events:
			r.fleet.note(e)
			err = r.handle(e)
		case <-r.timer.C:
			err = r.advance()
		case <-r.again.C:
			err = r.restart()
		case <-r.show.C:
			if r.phase != phaseFirst && r.phase != phaseStop {
				r.screen.status(r.elapsed(), r.judge, r.inside())
			}
		case <-ctx.Done():
			err = ErrInterrupted
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *race) elapsed() time.Duration { return r.now() - r.begun }
