// Package sim is the program dmutexsim: it runs many seeds of the simulator of
// package node/nodetest on all cores, sums up what they covered, and makes a seed
// that fails readable.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/treequorum/dmutex/node/nodetest"
)

// Run runs the program and returns its exit status: 0 when all seeds passed, 1 when
// one failed or the run was interrupted, 64 for wrong usage.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed) || ctx.Err() != nil:
		return 1
	}
	fmt.Fprintln(errOut, "dmutexsim:", err)
	return 64
}

// errFailed says that a promise was broken; the report is printed already.
var errFailed = errors.New("a seed failed")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "dmutexsim",
		Short: "Run simulated clusters by the seed, and judge them",
		Long: "A seed decides a whole cluster: its size, clocks, network, callers and faults. It is run\n" +
			"with the real protocol core and virtual time, first under faults, then healed, and\n" +
			"every promise is checked. The same seed gives the same run.",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newRunCommand(), newReplayCommand())
	return root
}

// settings of a run.
type settings struct {
	seeds   uint64
	first   uint64
	workers int
	every   time.Duration
}

func newRunCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Run many seeds",
		Example: "  dmutexsim run --seeds 20000\n  dmutexsim run --seeds 1000 --first 1",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSeeds(cmd.Context(), cmd.OutOrStdout(), s) },
	}
	cmd.Flags().Uint64Var(&s.seeds, "seeds", 1000, "how many seeds to run")
	cmd.Flags().Uint64Var(&s.first, "first", 0, "the first seed; 0: by the clock, so that they are new")
	cmd.Flags().IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "how many to run at a time")
	cmd.Flags().DurationVar(&s.every, "progress", 10*time.Second, "how often to print a line")
	return cmd
}

// tally is what the workers share.
type tally struct {
	next atomic.Uint64 // index of the next seed

	mu     sync.Mutex
	done   uint64
	stats  nodetest.Stats
	failed *nodetest.Result // with the lowest seed of those that failed
}

func (t *tally) add(r *nodetest.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	t.stats.Add(r.Stats)
	if r.Violation != nil && (t.failed == nil || r.Options.Seed < t.failed.Options.Seed) {
		t.failed = r
	}
}

func (t *tally) snapshot() (done uint64, stats nodetest.Stats, failed *nodetest.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done, t.stats, t.failed
}

func runSeeds(ctx context.Context, out io.Writer, s settings) error {
	if s.workers < 1 || s.seeds < 1 || s.every <= 0 {
		return errors.New("--seeds, --workers and --progress must be above zero")
	}
	if s.first == 0 {
		s.first = uint64(time.Now().UnixMicro())
	}
	fmt.Fprintf(out, "seeds %d to %d on %d workers\n", s.first, s.first+s.seeds-1, s.workers)
	t := &tally{}
	begin := time.Now()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var wg sync.WaitGroup
		for range s.workers {
			wg.Go(func() { work(ctx, t, s) })
		}
		wg.Wait()
	}()
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return summary(ctx, out, t, time.Since(begin))
		case <-ticker.C:
			done, stats, _ := t.snapshot()
			fmt.Fprintf(out, "%8.0fs  %d of %d seeds, %s\n", time.Since(begin).Seconds(), done, s.seeds, rate(done, stats, time.Since(begin)))
		}
	}
}

// work runs seeds until none is left, or one has failed.
func work(ctx context.Context, t *tally, s settings) {
	for ctx.Err() == nil {
		i := t.next.Add(1) - 1
		if _, _, failed := t.snapshot(); i >= s.seeds || failed != nil {
			return
		}
		t.add(nodetest.Run(nodetest.Draw(s.first+i), 0))
	}
}

func rate(done uint64, stats nodetest.Stats, took time.Duration) string {
	per := took.Seconds()
	return fmt.Sprintf("%.0f seeds an hour, %.0f cluster seconds a second",
		float64(done)/per*3600, float64(stats.Virtual)/1e9/per)
}

func summary(ctx context.Context, out io.Writer, t *tally, took time.Duration) error {
	done, stats, failed := t.snapshot()
	fmt.Fprintf(out, "%d seeds in %.1f s: %s\n%v\n%s\n", done, took.Seconds(), rate(done, stats, took), stats, stats.RuleCounts())
	if failed != nil {
		return report(out, failed.Options)
	}
	if err := ctx.Err(); err != nil {
		fmt.Fprintln(out, "interrupted")
		return err
	}
	if silent := stats.Silent(); len(silent) > 0 {
		fmt.Fprintf(out, "rules that never decided anything: %v; with more seeds none should be left\n", silent)
	}
	fmt.Fprintln(out, "PASS: no promise was broken")
	return nil
}
