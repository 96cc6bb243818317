package cli

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treequorum/dmutex/dmutex"
)

// lockOptions are what a call of dmutex lock asks for.
type lockOptions struct {
	name         string
	command      []string // empty: hold until standard input is closed
	wait         *time.Duration
	try          bool
	requireToken bool
	label        string
	grace        time.Duration // 0: T/12
	api          string
}

func newLockCommand(streams Streams) *cobra.Command {
	var o lockOptions
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "lock NAME [-- CMD ARGS...]",
		Short: "Run a command while holding a lock",
		Long: `lock asks the agent on this machine for the lock NAME and runs CMD while holding it.
CMD gets standard input (also a terminal), output and signals untouched, and

  DMUTEX_LOCK    the name of the lock
  DMUTEX_TOKEN   the fencing token, higher for each holder; empty, with a warning,
                 while members that know the last one are not all there

The lock is free again when CMD has ended; what CMD left running in the background is
not waited for, unless a signal ended CMD: then that is ended first. When the lock is about to be lost, by this command's own clock and
whatever its agent does, all that CMD has started is ended before somebody else can
have the lock: SIGTERM at the deadline - 2G, SIGKILL at the deadline - G. A guard
process does the same when lock itself is stopped or killed. Not covered: processes
that left CMD's process group (setsid, timeout, set -m), when lock and guard are both
killed with SIGKILL; processes that this user may not kill (sudo), when the agent is
gone too; work that CMD hands to others (a daemon, another machine); and when all are
stopped together (SIGSTOP, a paused machine), only the token tells that they are late.

Without CMD the lock is held until standard input is closed, or a signal comes.
(Standard input of background jobs of scripts is often /dev/null: closed at once.)

Exit status: that of CMD (128 + signal when one killed it; 126 and 127 when it cannot
be executed or found), 75 when the lock was busy, 69 without a quorum or an agent, 70
when the lock was lost, 64 for wrong usage.`,
		Example: `  dmutex lock nightly -- ./backup.sh
  dmutex lock nightly --wait 30s -- sh -c 'echo "token $DMUTEX_TOKEN"'
  dmutex lock nightly --try -- true || echo "busy: $?"

  # /etc/cron.d/backup, the same on each machine: one of them runs it
  0 3 * * *  root  dmutex lock nightly --try --require-token -- /usr/local/bin/backup || [ $? -eq 75 ]`,
		Args: func(cmd *cobra.Command, args []string) error { return o.arguments(args, cmd.ArgsLenAtDash()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags(), wait); err != nil {
				return err
			}
			files, err := filesOf(streams)
			if err != nil {
				return err
			}
			return runLock(cmd.Context(), &o, files)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&wait, "wait", 0, "give up after this time, like 30s; default: wait for ever")
	flags.BoolVar(&o.try, "try", false, "give up at once when somebody has the lock")
	flags.BoolVar(&o.requireToken, "require-token", false, "start CMD only once there is a fencing token")
	flags.StringVar(&o.label, "label", "", "text for people who look for the holder, at most 128 bytes")
	flags.DurationVar(&o.grace, "grace", 0, "G, time between SIGTERM and SIGKILL when the lock is lost, at most T/4; default T/12")
	flags.StringVar(&o.api, "api", "", "address of the agent's HTTP API; also DMUTEX_API; default "+defaultAPI)
	return cmd
}

// arguments takes NAME and CMD apart. dash is the number of arguments before
// "--", -1 when there is none.
func (o *lockOptions) arguments(args []string, dash int) error {
	before := args
	if dash >= 0 {
		before, o.command = args[:dash], args[dash:]
	}
	switch {
	case len(before) == 0:
		return usageErrorf("lock needs the NAME of a lock; see dmutex lock --help")
	case len(before) > 1:
		return usageErrorf(`unexpected %q: write -- before the command, as in "dmutex lock NAME -- CMD"`, before[1])
	case dash >= 0 && len(o.command) == 0, dash >= 0 && o.command[0] == "":
		return usageErrorf("there is no command behind --")
	}
	o.name = before[0]
	if o.name != "" && os.Getenv(envPrefix+"LOCK") == o.name {
		return usageErrorf("this runs under the lock %s already (DMUTEX_LOCK says so), and would wait for itself; "+
			"run the command as it is, or unset DMUTEX_LOCK where that is not so", o.name)
	}
	return checkName("lock name", o.name, 1, dmutex.MaxLockNameBytes)
}

// check completes the options and refuses those that cannot be meant.
func (o *lockOptions) check(flags *pflag.FlagSet, wait time.Duration) error {
	switch {
	case flags.Changed("wait") && o.try:
		return usageErrorf("--try and --wait exclude each other")
	case wait < 0:
		return usageErrorf("--wait %v: a time cannot be negative", wait)
	case flags.Changed("grace") && o.grace <= 0:
		return usageErrorf("--grace %v: it must be more than nothing", o.grace)
	case flags.Changed("wait") && wait == 0:
		o.try = true // the shortest wait that can succeed
	case flags.Changed("wait"):
		o.wait = &wait
	}
	if o.api == "" {
		o.api = os.Getenv(envPrefix + "API")
	}
	if o.api == "" {
		o.api = defaultAPI
	}
	if _, err := loopbackAddress(o.api); err != nil {
		return err
	}
	return checkName("label", o.label, 0, dmutex.MaxLabelBytes)
}

// checkName refuses early what the agent would refuse, so that a typing error
// shows also where no agent runs. The agent decides.
func checkName(what, text string, least, most int) error {
	switch {
	case len(text) < least, len(text) > most:
		return usageErrorf("%s has %d bytes: give %d to %d", what, len(text), least, most)
	case !utf8.ValidString(text):
		return usageErrorf("%s %q is not valid UTF-8", what, text)
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return usageErrorf("%s %q has the control character %U: leave it out", what, text, r)
		}
	}
	return nil
}

// lockFiles are the streams that the command inherits.
type lockFiles struct{ in, out, err *os.File }

func filesOf(streams Streams) (lockFiles, error) {
	out, okOut := streams.Out.(*os.File)
	errFile, okErr := streams.Err.(*os.File)
	if streams.In == nil || !okOut || !okErr {
		return lockFiles{}, errors.New("lock needs files as standard streams, for the command to inherit")
	}
	return lockFiles{streams.In, out, errFile}, nil
}

// say prints a message for people. That nobody reads it is no reason to end.
func (f lockFiles) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.err, "dmutex: "+format+"\n", args...)
}
