package cli

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treequorum/dmutex/cmd/internal/demo"
)

// Defaults of the demo.
const (
	demoNodes = 7
	demoFor   = 20 * time.Second
)

// demoWorkerCommand is the hidden command below demo that runs one process.
const demoWorkerCommand = "process"

func newDemoCommand(streams Streams) *cobra.Command {
	cfg := demo.Config{
		Worker:   []string{"demo", demoWorkerCommand},
		Stdout:   streams.Out,
		Terminal: isTerminal(streams.Out),
	}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a cluster of real processes hand a lock to each other",
		Long: `demo starts a cluster of processes on 127.0.0.1 that all want one lock, again and
again. After a third of the time it kills the process that is the root of that
lock's tree (SIGKILL), after two thirds it starts it again. One process that is no
part of the cluster watches that no two of them are inside the lock at once.

The time counts from the first lock, a little more than a second after the start.
The exit status is 0 when there was no overlap and every live process had the
lock, 1 when not, 130 when interrupted. Latencies are in milliseconds.`,
		Example: `  dmutex demo
  dmutex demo --nodes 15 --for 30s
  dmutex demo --json | jq .overlaps`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageErrorf("demo takes no argument, got %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				cfg.Seed = uint64(rand.Uint32()) // short enough to type again
			}
			return runDemo(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&cfg.Nodes, "nodes", demoNodes, "number of processes; 3, 7 and 15 give full trees")
	flags.DurationVar(&cfg.For, "for", demoFor, "how long they fight for the lock")
	flags.BoolVar(&cfg.JSON, "json", false, "print the result as one JSON object, and nothing else")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "seed of the pauses between two locks (default random)")
	flags.BoolVar(&cfg.Break, "break", false, "let the processes in without the lock: the verdict has to be FAIL")
	_ = flags.MarkHidden("break") // it was defined one line above
	cmd.AddCommand(newDemoWorkerCommand(streams))
	return cmd
}

// runDemo ends the demo, and all its processes, at SIGINT and SIGTERM.
func runDemo(ctx context.Context, cfg demo.Config) error {
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	result, err := demo.Run(ctx, cfg)
	switch {
	case errors.Is(err, demo.ErrUsage):
		return &exitError{status: exitUsage, err: err}
	case errors.Is(err, demo.ErrInterrupted):
		return &exitError{status: exitSignal + int(syscall.SIGINT), err: err}
	case err != nil:
		return &exitError{status: exitFailure, err: err}
	}
	if err := result.Err(); err != nil {
		return &exitError{status: exitFailure, err: err}
	}
	return nil
}

// newDemoWorkerCommand is what demo starts for each process.
func newDemoWorkerCommand(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:    demoWorkerCommand,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An interrupt from the terminal goes to all processes. Only the one
			// that started the others is to act on it; they end with its pipe.
			signal.Ignore(os.Interrupt)
			if err := demo.RunWorker(cmd.Context(), streams.In, streams.Out); err != nil {
				return &exitError{status: exitFailure, err: err}
			}
			return nil
		},
	}
}

// isTerminal reports whether w is a screen. The null device is a character
// device too.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
