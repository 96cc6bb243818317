//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/ports"
)

// holdFor is how long the lock is held while the members are restarted.
const holdFor = 60 * time.Second

// checkRolling kills and restarts each of five members in turn, each once the one
// before is out of its quarantine, while a client holds a lock and another wants it.
func checkRolling(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 5)
	if err != nil {
		return err
	}
	defer c.close()
	var clients []*agent
	for i := range 2 {
		a, err := c.startClient(ctx, fmt.Sprintf("client%d", i+1))
		if err != nil {
			return err
		}
		clients = append(clients, a)
	}
	journal := b.file()
	begin := time.Now()
	holder, err := c.lock(clients[0], append([]string{"job"}, worker(journal, "holder", 1_000_000)...)...)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, 10*time.Second, "the holder's command", came(journal, "holder")); err != nil {
		return fmt.Errorf("%w: %s", err, holder.stderr.String())
	}
	waiter, err := c.lock(clients[1], append([]string{"job"}, worker(journal, "waiter", 10)...)...)
	if err != nil {
		return err
	}
	for round := 1; time.Since(begin) < holdFor-5*time.Second; round++ {
		if err := c.restart(ctx, c.agents[(round-1)%5]); err != nil {
			return err
		}
		r.say("ok   restart %d: member %s ready again %.1f s after the start of the hold", round, c.agents[(round-1)%5].name, time.Since(begin).Seconds())
	}
	time.Sleep(max(0, holdFor-time.Since(begin)))
	select {
	case <-holder.done:
		r.fail("the hold ended with %d: %s", holder.status, holder.stderr.String())
	default:
		r.say("ok   held for %.1f s", time.Since(begin).Seconds())
	}
	if err := holder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := errors.Join(holder.wait(ctx, 10*time.Second), waiter.wait(ctx, 20*time.Second)); err != nil {
		return err
	}
	entries, err := readJournal(journal)
	if err != nil {
		return err
	}
	end := last(entries, "holder")
	next, _ := first(entries, "waiter")
	r.expect(overlaps(entries) == 0 && next.token > end.token, "overlaps %d, tokens %d, then %d", overlaps(entries), end.token, next.token)
	r.expect(waiter.status == 0, "exit of the waiter's lock: %d, want 0", waiter.status)
	return nil
}

// restart kills a member, unless it is dead, and starts it again, and waits until it
// is ready.
func (c *cluster) restart(ctx context.Context, a *agent) error {
	if !a.dead {
		if err := a.kill(); err != nil {
			return err
		}
	}
	a.dead = false
	if err := c.start(a); err != nil {
		return err
	}
	return waitFor(ctx, 15*time.Second, "agent "+a.name+" to be ready again", a.ready)
}

// startClient starts an agent that is no member.
func (c *cluster) startClient(ctx context.Context, name string) (*agent, error) {
	addrs, err := ports.Free(1)
	if err != nil {
		return nil, err
	}
	a := &agent{name: name, api: addrs[0]}
	a.args = []string{"agent", "--client", "--name", name, "--peers", c.peers, "--api", a.api}
	if err := c.start(a); err != nil {
		return nil, err
	}
	c.agents = append(c.agents, a)
	return a, waitFor(ctx, 15*time.Second, "agent "+name+" to be ready", a.ready)
}
