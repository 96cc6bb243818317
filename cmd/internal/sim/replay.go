package sim

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/treequorum/dmutex/node/nodetest"
)

// reportLines is how much of the trace a report shows.
const reportLines = 200

func newReplayCommand() *cobra.Command {
	var seed uint64
	var lines int
	var trace bool
	cmd := &cobra.Command{
		Use:     "replay",
		Short:   "Run one seed again, and show what happened",
		Example: "  dmutexsim replay --seed 42 --trace",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			o := nodetest.Draw(seed)
			if r := nodetest.Run(o, 0); r.Violation != nil {
				return report(out, o)
			}
			r := nodetest.Run(o, lines)
			fmt.Fprintf(out, "%v\n%v\n", r.Options, r.Stats)
			if trace {
				for _, line := range r.Trace {
					fmt.Fprintln(out, line)
				}
			}
			fmt.Fprintln(out, "PASS: no promise was broken")
			return nil
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "the seed")
	cmd.Flags().BoolVar(&trace, "trace", false, "print the last events, also when no promise was broken")
	cmd.Flags().IntVar(&lines, "lines", 400, "how many events --trace prints")
	if err := cmd.MarkFlagRequired("seed"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// report shows a failure: the seed as it was drawn, and then a shorter way to it.
func report(out io.Writer, o nodetest.Options) error {
	full := nodetest.Run(o, 0)
	small, tries := shrink(o, func(try nodetest.Options) bool {
		r := nodetest.Run(try, 0)
		return r.Violation != nil && r.Violation.Kind == full.Violation.Kind
	})
	r := nodetest.Run(small, reportLines)
	fmt.Fprintf(out, "FAIL: seed %d broke a promise: %v\n", o.Seed, full.Violation)
	fmt.Fprintf(out, "as drawn: %v\nshortened in %d tries, to the last %d events:\n%s", o, tries, len(r.Trace), r.Report())
	fmt.Fprintf(out, "replay as drawn: go run ./cmd/dmutexsim replay --seed %d\n", o.Seed)
	return errFailed
}

// maxTries bounds the runs that shrink makes.
const maxTries = 200

// shrink drops faults, noise and nodes while the same promise is still broken, and
// counts its tries.
func shrink(o nodetest.Options, broken func(nodetest.Options) bool) (small nodetest.Options, tries int) {
	for changed := true; changed && tries < maxTries; {
		changed = false
		for _, smaller := range smallerThan(o) {
			if tries >= maxTries {
				break
			}
			tries++
			if broken(smaller) {
				o, changed = smaller, true
				break
			}
		}
	}
	return o, tries
}

// smallerThan returns options that are simpler than o in one point each, the
// biggest simplifications first.
func smallerThan(o nodetest.Options) []nodetest.Options {
	var list []nodetest.Options
	try := func(useful bool, change func(*nodetest.Options)) {
		if useful {
			smaller := o
			smaller.Faults.Kinds = slices.Clone(o.Faults.Kinds)
			change(&smaller)
			list = append(list, smaller)
		}
	}
	try(o.Faulty > o.TTL, func(s *nodetest.Options) { s.Faulty /= 2 })
	try(o.Clients > 0, func(s *nodetest.Options) { s.Clients-- })
	try(o.Locks > 1, func(s *nodetest.Options) { s.Locks = 1 })
	try(o.Calls.Slots > 1, func(s *nodetest.Options) { s.Calls.Slots = 1 })
	for i := range o.Faults.Kinds {
		try(true, func(s *nodetest.Options) {
			s.Faults.Kinds = slices.Delete(s.Faults.Kinds, i, i+1)
			if len(s.Faults.Kinds) == 0 {
				s.Faults.Every = 0
			}
		})
	}
	try(o.Net.Loss > 0, func(s *nodetest.Options) { s.Net.Loss = 0 })
	try(o.Net.Duplicate > 0, func(s *nodetest.Options) { s.Net.Duplicate = 0 })
	try(o.Net.Late > 0, func(s *nodetest.Options) { s.Net.Late = 0 })
	try(o.Net.Jitter > 1, func(s *nodetest.Options) { s.Net.Jitter = 1 })
	try(o.Faults.Walls, func(s *nodetest.Options) { s.Faults.Walls = false })
	try(o.Faults.Lazy > 0, func(s *nodetest.Options) { s.Faults.Lazy = 0 })
	try(o.Calls.Token > 0, func(s *nodetest.Options) { s.Calls.Token = 0 })
	try(o.Calls.Try > 0, func(s *nodetest.Options) { s.Calls.Try = 0 })
	try(o.Calls.Patience > 0, func(s *nodetest.Options) { s.Calls.Patience = 0 })
	try(o.Calls.LongHold > 0, func(s *nodetest.Options) { s.Calls.LongHold = 0 })
	try(o.Half != nodetest.HealAll, func(s *nodetest.Options) { s.Half = nodetest.HealAll })
	return list
}
