//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// bound is how soon the next holder comes after a crash: T(1+d) + 2 s.
const bound = ttl*11/10 + 2*time.Second

func checkExclusion(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 7)
	if err != nil {
		return err
	}
	defer c.close()
	journal := b.file()
	var runs []*lockRun
	for i := range 10 {
		args := append([]string{"nightly", "--wait", "30s"}, worker(journal, fmt.Sprintf("w%d", i), 50)...)
		run, err := c.lock(c.agents[i%7], args...)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	for i, run := range runs {
		if err := run.wait(ctx, 40*time.Second); err != nil {
			return err
		}
		if run.status != 0 {
			r.fail("lock %d: exit %d, want 0: %s", i, run.status, run.stderr.String())
		}
	}
	entries, err := readJournal(journal)
	if err != nil {
		return err
	}
	words := 0
	for _, e := range entries {
		if e.word != "tick" {
			words++
		}
	}
	r.expect(overlaps(entries) == 0, "%d lines of ten commands, %d overlaps", len(entries), overlaps(entries))
	r.expect(words == 20, "%d in and out, want 20", words)
	return nil
}

func checkStatus(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 3)
	if err != nil {
		return err
	}
	defer c.close()
	expect := func(a *agent, want int, args ...string) error {
		run, err := c.lock(a, args...)
		if err != nil {
			return err
		}
		if err := run.wait(ctx, 20*time.Second); err != nil {
			return err
		}
		said := strings.TrimSpace(run.stderr.String())
		r.expect(run.status == want, "lock %s: exit %d, want %d; %s", strings.Join(args, " "), run.status, want, said)
		return nil
	}
	journal := b.file()
	holder, err := c.lock(c.agents[0], append([]string{"held"}, worker(journal, "holder", 100_000)...)...)
	if err != nil {
		return err
	}
	defer func() { _ = holder.cmd.Process.Signal(syscall.SIGTERM) }()
	if err := waitFor(ctx, 10*time.Second, "the holder's command", came(journal, "holder")); err != nil {
		return err
	}
	dead := &agent{api: "127.0.0.1:1"}
	steps := []error{
		expect(c.agents[1], 75, "held", "--try", "--", "true"),
		expect(c.agents[1], 75, "held", "--wait", "300ms", "--", "true"),
		expect(c.agents[1], 7, "free", "--", "sh", "-c", "exit 7"),
		expect(c.agents[1], 127, "free", "--", "no-such-command"),
		expect(c.agents[1], 64, "bad\nname", "--", "true"),
		expect(c.agents[1], 64, "free", "--try", "--wait", "1s", "--", "true"),
		expect(c.agents[1], 64, "free", "--no-such-flag"),
		expect(dead, 69, "free", "--", "true"),
	}
	if err := errors.Join(steps...); err != nil {
		return err
	}
	if err := errors.Join(c.agents[0].kill(), c.agents[2].kill()); err != nil {
		return err
	}
	if err := expect(c.agents[1], 69, "free", "--wait", "3s", "--", "true"); err != nil {
		return err
	}
	if err := holder.wait(ctx, 20*time.Second); err != nil {
		return err
	}
	r.expect(holder.status == 70, "the agent of a holder is killed: exit %d, want 70", holder.status)
	return nil
}

// contest is a cluster of seven in which a command at the first agent holds a lock,
// and one at the last agent waits for it.
type contest struct {
	*cluster
	journal        string
	holder, waiter *lockRun
}

// startContest starts one; the waiter's command takes so many ticks. The caller
// closes it.
func startContest(ctx context.Context, b *bench, ticks int) (*contest, error) {
	c, err := newCluster(ctx, b, 7)
	if err != nil {
		return nil, err
	}
	s := &contest{cluster: c, journal: b.file()}
	if err := s.begin(ctx, ticks); err != nil {
		c.close()
		return nil, err
	}
	return s, nil
}

func (s *contest) begin(ctx context.Context, ticks int) (err error) {
	s.holder, err = s.lock(s.agents[0], append([]string{"job"}, worker(s.journal, "holder", 100_000)...)...)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, 10*time.Second, "the holder's command", came(s.journal, "holder")); err != nil {
		return fmt.Errorf("%w: %s", err, s.holder.stderr.String())
	}
	s.waiter, err = s.lock(s.agents[len(s.agents)-1], append([]string{"job"}, worker(s.journal, "waiter", ticks)...)...)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the hold is an ordinary one by now
	return nil
}

func checkKillHolder(ctx context.Context, r *report, b *bench) error {
	s, err := startContest(ctx, b, 20)
	if err != nil {
		return err
	}
	defer s.close()
	killed := time.Now()
	if err := s.agents[0].kill(); err != nil {
		return err
	}
	return handedOver(ctx, r, s, killed)
}

// handedOver checks that the holder's command was ended, with status 70, before the
// waiter's began, and that this one began in time.
func handedOver(ctx context.Context, r *report, s *contest, since time.Time) error {
	for _, run := range []*lockRun{s.holder, s.waiter} {
		if err := run.wait(ctx, 4*ttl+5*time.Second); err != nil {
			return err
		}
	}
	entries, err := readJournal(s.journal)
	if err != nil {
		return err
	}
	end := last(entries, "holder")
	next, ok := first(entries, "waiter")
	if !ok {
		return errors.New("the waiter never had the lock")
	}
	r.expect(s.holder.status == 70, "exit of the holder's lock: %d, want 70", s.holder.status)
	r.expect(overlaps(entries) == 0, "last line of the holder's command %.3f s before the waiter's first", next.at.Sub(end.at).Seconds())
	r.expect(s.holder.ended.Before(next.at), "the holder's lock ended %.3f s before the waiter had it", next.at.Sub(s.holder.ended).Seconds())
	r.expect(next.token > end.token, "tokens rise: %d, then %d", end.token, next.token)
	r.within("next holder after the fault", next.at.Sub(since), bound)
	return nil
}

func checkKillTwo(ctx context.Context, r *report, b *bench) error {
	s, err := startContest(ctx, b, 20)
	if err != nil {
		return err
	}
	defer s.close()
	killed := time.Now()
	if err := errors.Join(s.agents[3].kill(), s.agents[1].kill()); err != nil { // n4 is the root without rotation
		return err
	}
	for i := range 5 {
		begin := time.Now()
		run, err := s.lock(s.agents[2+i%2*2], fmt.Sprintf("new-%d", i), "--", "true")
		if err != nil {
			return err
		}
		if err := run.wait(ctx, 20*time.Second); err != nil {
			return err
		}
		r.expect(run.status == 0, "new lock %d after the kill: exit %d", i, run.status)
		r.within("new lock", time.Since(begin), 2*time.Second)
	}
	time.Sleep(max(0, 2*ttl-time.Since(killed)))
	select {
	case <-s.holder.done:
		r.fail("the hold ended with %d: %s", s.holder.status, s.holder.stderr.String())
	default:
		r.say("ok   the held lock is still held %.1f s after", time.Since(killed).Seconds())
	}
	released := time.Now()
	if err := s.holder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := errors.Join(s.holder.wait(ctx, 10*time.Second), s.waiter.wait(ctx, 10*time.Second)); err != nil {
		return err
	}
	entries, err := readJournal(s.journal)
	if err != nil {
		return err
	}
	next, ok := first(entries, "waiter")
	r.expect(ok && s.waiter.status == 0 && overlaps(entries) == 0, "the waiter had it after the holder, exit %d, overlaps %d",
		s.waiter.status, overlaps(entries))
	r.within("waiter after the release", next.at.Sub(released), 2*time.Second)
	return nil
}

func checkStopAgent(ctx context.Context, r *report, b *bench) error {
	s, err := startContest(ctx, b, 20)
	if err != nil {
		return err
	}
	defer s.close()
	stopped := time.Now()
	if err := s.agents[0].signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.AfterFunc(2*ttl, func() { _ = s.agents[0].signal(syscall.SIGCONT) })
	return handedOver(ctx, r, s, stopped)
}

func checkStopAll(ctx context.Context, r *report, b *bench) error {
	s, err := startContest(ctx, b, 400)
	if err != nil {
		return err
	}
	defer s.close()
	guard, command, err := commandOf(s.holder.cmd.Process.Pid)
	if err != nil {
		return err
	}
	stopped := time.Now()
	err = errors.Join(syscall.Kill(guard, syscall.SIGSTOP), s.holder.cmd.Process.Signal(syscall.SIGSTOP),
		s.agents[0].signal(syscall.SIGSTOP), syscall.Kill(-command, syscall.SIGSTOP))
	if err != nil {
		return err
	}
	if err := waitFor(ctx, bound+2*time.Second, "the waiter's command", came(s.journal, "waiter")); err != nil {
		return err
	}
	entries, err := readJournal(s.journal)
	if err != nil {
		return err
	}
	next, _ := first(entries, "waiter")
	r.within("next holder after the stop", next.at.Sub(stopped), bound)
	time.Sleep(max(0, 2*ttl-time.Since(stopped)))
	if err := resumeLate(ctx, s, guard, command); err != nil {
		return err
	}
	if err := s.holder.wait(ctx, 10*time.Second); err != nil {
		return err
	}
	if err := s.waiter.wait(ctx, 20*time.Second); err != nil {
		return err
	}
	if entries, err = readJournal(s.journal); err != nil {
		return err
	}
	turnedAway, accepted := refused(entries, "holder")
	r.expect(s.holder.status == 70, "exit of the late lock: %d, want 70", s.holder.status)
	r.expect(turnedAway > 0 && accepted == 0, "late writes: %d refused by the token, %d accepted", turnedAway, accepted)
	r.expect(s.waiter.status == 0, "exit of the waiter's lock: %d, want 0", s.waiter.status)
	return nil
}

// resumeLate lets a stopped command go on, and those that would end it only once it
// has written.
func resumeLate(ctx context.Context, s *contest, guard, command int) error {
	entries, err := readJournal(s.journal)
	if err != nil {
		return err
	}
	before := count(entries, "holder")
	if err := syscall.Kill(-command, syscall.SIGCONT); err != nil {
		return err
	}
	err = waitFor(ctx, 5*time.Second, "a late write", func() bool {
		entries, err := readJournal(s.journal)
		return err == nil && count(entries, "holder") > before
	})
	return errors.Join(err, syscall.Kill(guard, syscall.SIGCONT), s.holder.cmd.Process.Signal(syscall.SIGCONT),
		s.agents[0].signal(syscall.SIGCONT))
}

// checkKillLock kills `dmutex lock`, and in half of the runs its agent as well, while
// its command works in a process group of its own, as timeout(1) and job control do.
func checkKillLock(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 3)
	if err != nil {
		return err
	}
	defer c.close()
	for i := range 6 {
		agentToo := i%2 == 1
		if err := killLock(ctx, r, b, c, fmt.Sprintf("job-%d", i), agentToo); err != nil {
			return err
		}
		if agentToo {
			if err := c.restart(ctx, c.agents[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func killLock(ctx context.Context, r *report, b *bench, c *cluster, name string, agentToo bool) error {
	journal, script := b.file(), b.file()
	work := worker(journal, "holder", 100_000)
	if err := os.WriteFile(script, []byte(work[len(work)-1]), 0o600); err != nil {
		return err
	}
	holder, err := c.lock(c.agents[0], name, "--", "sh", "-c", "timeout 60 sh "+script+"; true")
	if err != nil {
		return err
	}
	if err := waitFor(ctx, 10*time.Second, "the holder's command", came(journal, "holder")); err != nil {
		return err
	}
	killed := time.Now()
	if err := holder.cmd.Process.Kill(); err != nil {
		return err
	}
	if agentToo {
		if err := c.agents[0].kill(); err != nil {
			return err
		}
	}
	next, err := c.lock(c.agents[1], append([]string{name, "--wait", "30s"}, worker(journal, "next", 30)...)...)
	if err != nil {
		return err
	}
	if err := errors.Join(holder.wait(ctx, 10*time.Second), next.wait(ctx, 40*time.Second)); err != nil {
		return err
	}
	entries, err := readJournal(journal)
	if err != nil {
		return err
	}
	begin, _ := first(entries, "next")
	r.expect(overlaps(entries) == 0 && next.status == 0, "%s, agent killed too %v: overlaps %d, next one after %.3f s, its exit %d",
		name, agentToo, overlaps(entries), begin.at.Sub(killed).Seconds(), next.status)
	return nil
}
