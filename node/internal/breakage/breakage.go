// Package breakage names deliberate faults of the protocol core. A test that
// breaks a rule shows that the checkers of the simulator would see it; a checker
// that never fails proves nothing. Only packages below node can import this one,
// and a Set with anything in it can be made only here, so no user of the core can
// switch a rule off.
package breakage

import "fmt"

// Fault is one rule taken out, or done wrong.
type Fault uint8

// The faults, in the order of the rules that they break (node's package comment).
const (
	ManyGrants         Fault = iota + 1 // R1: a member grants whoever asks
	NoInquire                           // R6: a member never asks for a grant back
	NoYieldNumbers                      // R7: a Yield with any number takes the grant back
	NoVoteSilence                       // R14: a member gives the other vote at once
	LongVotes                           // R14: a vote counts as long as a grant
	QuarantineVotes                     // R14: a member votes in quarantine
	NoVotes                             // R14, R19, R34: votes do not matter
	ReleaseEndsAny                      // R8: a Release ends whatever its sender has
	SilenceFrees                        // R9: a Validate that is not answered within T/4 frees
	ShortLease                          // R10: a member ends a session after 0.9 T
	NoSessionNumbers                    // R10, R11: grants of an ended session count again
	FormerIncarnation                   // R11: messages to a former incarnation are taken
	NoQuarantine                        // R13: a member that restarts grants at once
	ShortQuarantine                     // R13: the quarantine lasts 0.7 T
	QuarantineHolding                   // R13: a holder's Request is granted in quarantine
	OneRequest                          // R16: a Request is sent once only
	QueuedIsAnswer                      // R16: a Request is not repeated once it was queued
	FreshFromReceipt                    // R17: a grant counts from when an answer came
	FormerRenewed                       // R17: a restarted member renews what its former incarnation granted
	YieldForgotten                      // R18: a grant that was yielded counts when it comes again
	YieldOnlyNamed                      // R18: Inquire gives up only the grant of that very number
	YieldNotRepeated                    // R18: a grant that was yielded is ignored when it comes again
	MajorityOfGrants                    // R19: any majority of grants holds, no quorum of the tree is needed
	InputBeforeTime                     // R20: input is looked at before the deadline
	LossForgiven                        // R20: an answer up to T/4 after the deadline brings the lock back
	NoSilence                           // R22: a requester that hears nothing goes on talking
	NoWithdrawal                        // R23: a half-connected requester keeps its place
	NoReleaseOfFormer                   // "to all that were asked": Release goes only to those wanted now
	TokenWithoutCommit                  // R27: the first proposal is the token
	TokenByOne                          // R27: one member that takes the token is enough
	TokenByGranters                     // R27: a token is fixed by the members that grant
	FloorsNotRead                       // R28: a restarted member starts from its wall clock alone
	FloorsInQuarantine                  // R28: floors are read at the start
	FloorsOfOneFewer                    // R28: floors are read from one member too few
	endOfFaults
)

// All returns every fault.
func All() []Fault {
	faults := make([]Fault, 0, endOfFaults-1)
	for f := Fault(1); f < endOfFaults; f++ {
		faults = append(faults, f)
	}
	return faults
}

// String names the fault.
func (f Fault) String() string {
	if name := f.name(); name != "" {
		return name
	}
	return fmt.Sprintf("Fault(%d)", uint8(f))
}

// Named returns the fault of that name, false when there is none.
func Named(name string) (Fault, bool) {
	for _, f := range All() {
		if f.name() == name {
			return f, true
		}
	}
	return 0, false
}

// Set is a set of faults. The zero Set breaks nothing.
type Set struct{ bits uint64 }

// Of returns the set of the given faults.
func Of(faults ...Fault) Set {
	var s Set
	for _, f := range faults {
		s.bits |= 1 << f
	}
	return s
}

// Has reports whether f is in s.
func (s Set) Has(f Fault) bool { return s.bits&(1<<f) != 0 }
