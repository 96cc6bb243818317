package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Gossip is this node's part in the gossip of a cluster. Its methods may be called from
// any goroutine.
type Gossip struct {
	view      *view
	list      *memberlist.Memberlist
	transport *netTransport
	log       *logWriter

	stop    context.CancelFunc // ends the joiner and the delivery of events
	wg      sync.WaitGroup     // of these two
	closing sync.Once
	closed  chan struct{}
	err     error // of closing; read after closed
}

// Start takes part in the gossip. It does not wait for any peer: those that
// cannot be reached, or whose host names do not resolve, are tried again for as
// long as the gossip runs. ev may be nil. Errors wrap [ErrConfig] when the configuration is
// to blame; after an error nothing is left running and Packets and Conns
// still belong to the caller.
func Start(cfg Config, ev Events) (*Gossip, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	logTo := newLogWriter(cfg.Logger)
	peers := newTable(slices.Clone(cfg.Peers), cfg.Resolve)
	v := newView(cfg.Name, peers, logTo)
	t := newTransport(&cfg, peers, v, logTo)
	mc := cfg.memberlistConfig(t, v, logTo)
	v.patience = mc.ProbeInterval
	list, err := memberlist.Create(mc)
	if err != nil {
		_ = t.Shutdown() // nothing was started, so nothing can fail
		return nil, fmt.Errorf("gossip: start memberlist: %w", err)
	}
	t.start()

	ctx, stop := context.WithCancel(context.Background())
	g := &Gossip{view: v, list: list, transport: t, log: logTo, stop: stop, closed: make(chan struct{})}
	j := &joiner{
		view: v, log: logTo, interval: cfg.joinInterval(),
		random: rand.New(rand.NewPCG(cfg.Seed, uint64(len(cfg.Peers)))), // jitter, not a secret
		join: func(alias string) error {
			_, err := list.Join([]string{fmt.Sprintf("%s/%s:%d", alias, placeholderIP, placeholderPort)})
			return err
		},
	}
	g.wg.Go(func() { j.run(ctx) })
	if ev != nil {
		g.wg.Go(func() { v.deliver(ev, ctx.Done()) })
	}
	return g, nil
}

// Members returns all members on the list, sorted by name, this node included.
// The caller owns the slice. It does not block.
func (g *Gossip) Members() []Member { return g.view.members() }

// Refused counts the packets dropped so far because their label was another
// cluster's, or their kind none that members send. It does not block.
func (g *Gossip) Refused() uint64 { return g.transport.refused.Load() }

// Close tells the others that this node leaves and ends everything that Start
// began. The farewell takes at most 400 ms, less when ctx ends earlier, and is left out
// when ctx has ended already. Close then waits, until ctx ends, for the goroutines
// of the package; an Events call that is under way, or a Resolve that does not
// heed its context, holds it up. No event is delivered once Close has returned
// nil. Connections taken from Config.Conns are closed; Config.Packets is not.
//
// Further calls wait for the first one and return the same.
func (g *Gossip) Close(ctx context.Context) error {
	g.closing.Do(func() {
		g.stop()
		g.view.close()
		go g.shutdown(farewell(ctx))
	})
	select {
	case <-g.closed:
		return g.err
	case <-ctx.Done():
	}
	// Both may be ready; then the work is done.
	select {
	case <-g.closed:
		return g.err
	default:
		return fmt.Errorf("gossip: close, an event or a name resolution may be stuck: %w", ctx.Err())
	}
}

// farewell is the time that there is to say goodbye.
func farewell(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	if deadline, ok := ctx.Deadline(); ok {
		return min(leaveTimeout, time.Until(deadline)/2)
	}
	return leaveTimeout
}

func (g *Gossip) shutdown(goodbye time.Duration) {
	defer close(g.closed)
	if goodbye > 0 {
		// Its only error is that nobody confirmed in time. The others find out
		// by probing then.
		_ = g.list.Leave(goodbye)
	}
	g.log.stop()
	if err := g.list.Shutdown(); err != nil {
		g.err = fmt.Errorf("gossip: close: %w", err)
	}
	g.wg.Wait()
}
