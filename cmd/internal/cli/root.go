// Package cli is the logic of the dmutex program: its commands, their flags and
// their exit statuses.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treequorum/dmutex/cmd/internal/runner"
)

// The exit statuses that are not those of a command that was run. They follow
// sysexits.h and the shells.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 64
	exitUnavailable = 69  // no quorum, or no agent
	exitLost        = 70  // the lock was lost while the command ran
	exitBusy        = 75  // somebody else has the lock
	exitSignal      = 128 // plus the number of the signal
)

// Streams are the standard streams of a command. In is a file, and Out and Err
// are files where a program is to inherit them.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// exitError ends the program with a status. A nil err prints nothing more.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageErrorf reports a wrong call of the program.
func usageErrorf(format string, args ...any) error {
	return &exitError{status: exitUsage, err: fmt.Errorf(format, args...)}
}

// Run runs the program with args, without the program's name, and returns its
// exit status. It blocks until the command is over; the end of ctx ends the
// commands that run for long.
func Run(ctx context.Context, args []string, streams Streams) int {
	if len(args) > 0 && args[0] == runner.GateArgument {
		return runner.Gate(args[1:], streams.Err)
	}
	if len(args) > 0 && args[0] == runner.GuardArgument {
		return runner.Guard(args[1:], streams.Err)
	}
	root := newRootCommand(streams)
	if err := knownCommand(root, args); err != nil {
		printError(streams.Err, err)
		return exitUsage
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			printError(streams.Err, exit.err)
		}
		return exit.status
	default:
		printError(streams.Err, err)
		return exitFailure
	}
}

// knownCommand refuses what is no command: with --help behind it, it would look
// like one.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "completion" || strings.HasPrefix(args[0], "__complete") {
		return nil
	}
	for _, cmd := range root.Commands() {
		if cmd.Name() == args[0] {
			return nil
		}
	}
	return fmt.Errorf("unknown command %q; see dmutex --help", args[0])
}

// version is that of the build, as the toolchain has noted it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// printError prints an error, and joined errors one a line.
func printError(w io.Writer, err error) {
	const prefix = "dmutex: " // the library's errors have it already
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimPrefix(strings.TrimSpace(line), prefix)
		line = strings.ReplaceAll(line, ": "+prefix, ": ")
		_, _ = fmt.Fprintln(w, prefix+line)
	}
}

// usageArgs makes what check says a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageErrorf("%w; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}

func newRootCommand(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "dmutex",
		Short: "Locks for programs on many machines",
		Long: `dmutex lets at most one of many programs, on many machines, hold a named lock.
An agent on each machine is a member of the cluster; "dmutex lock" runs a command
while holding a lock. A lease lock protects a resource only as far as the rates
of the machines' clocks hold: let the resource check the fencing token.`,
		Example: `  dmutex agent --dev &
  dmutex lock nightly -- ./backup.sh`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newAgentCommand(streams), newLockCommand(streams), newDemoCommand(streams))
	return root
}
