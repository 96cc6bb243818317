// Package api is the local HTTP interface of an agent: the server in the agent,
// the client in dmutex lock, and the lines that they exchange.
//
// # One hold
//
// POST /v1/locks/{name}, with the name escaped as one path segment, is one hold
// from the wish to the end. The body is a stream of lines of JSON: a [Hello],
// then [Update]s. The response is a stream of lines, each a [State]. Both stay
// open at the same time.
//
// A hold ends early only by an update that releases it. A caller that named its
// process, its group and its guard, and lives on the agent's machine, keeps the
// lock until all these are dead, whatever becomes of the connection; any other
// caller keeps it until it has sent no ping for the lease's length.
package api

import (
	"fmt"
	"strings"
)

// Limits of the interface.
const (
	MaxRequestLine  = 4 << 10  // bytes of one line of a request's body
	MaxResponseLine = 64 << 10 // bytes of one line of a response
	MaxHolds        = 10_000   // holds and waits at one time
	maxHeaderBytes  = 16 << 10
	maxExtraConns   = 256 // connections beside those of holds
)

// locksPath is the path of holds, to be followed by the escaped name.
const locksPath = "/v1/locks/"

// Hello is the first line of a request.
type Hello struct {
	// WaitMS is how long to wait for the lock, in milliseconds. Absent: for ever.
	WaitMS *int64 `json:"wait_ms,omitempty"`
	// Try gives up as soon as somebody else is known to have the lock.
	Try bool `json:"try,omitempty"`
	// Label is shown to people who look for the holder.
	Label string `json:"label,omitempty"`
	// PID and PIDStart (field 22 of /proc/PID/stat) name the calling process, and
	// BootID (/proc/sys/kernel/random/boot_id) its machine. All three or none.
	PID      int    `json:"pid,omitempty"`
	PIDStart uint64 `json:"pid_start,omitempty"`
	BootID   string `json:"boot_id,omitempty"`
	// Token asks for a fencing token, which comes with a later "held".
	Token bool `json:"token,omitempty"`
}

// Update is any later line of a request: exactly one of its parts.
type Update struct {
	// Group is the process group that works under the lock, and
	// GroupLeaderStart the start time of its leader, as Hello.PIDStart.
	Group            int    `json:"group,omitempty"`
	GroupLeaderStart uint64 `json:"group_leader_start,omitempty"`
	// Guard is a process that ends the group when the caller does not, and
	// GuardStart its start time. They come with a group, or not at all.
	Guard      int    `json:"guard,omitempty"`
	GuardStart uint64 `json:"guard_start,omitempty"`
	// Ping says that the caller lives. Pings are numbered from 1 up.
	Ping uint64 `json:"ping,omitempty"`
	// Release ends the hold, or the wait.
	Release bool `json:"release,omitempty"`
}

// check reports an update that says nothing, or two things.
func (u Update) check() error {
	parts := 0
	for _, is := range []bool{u.Group != 0 || u.GroupLeaderStart != 0 || u.Guard != 0 || u.GuardStart != 0, u.Ping != 0, u.Release} {
		if is {
			parts++
		}
	}
	switch {
	case parts != 1:
		return fmt.Errorf("a line must hold exactly one of group, ping and release, not %d", parts)
	case u.Group < 0 || u.Group == 1, u.Group == 0 && u.GroupLeaderStart != 0:
		return fmt.Errorf("group %d is no process group of a command", u.Group)
	case u.Guard < 0 || u.Guard == 1, u.Guard == 0 && u.GuardStart != 0, u.Guard != 0 && u.Group == 0:
		return fmt.Errorf("guard %d of group %d is no process that guards a command", u.Guard, u.Group)
	}
	return nil
}

// Kind names a state of a hold.
type Kind string

// The kinds of states. Failed, Lost and Released are the last line of a response.
const (
	KindWaiting  Kind = "waiting"  // Ahead, Holder, SinceMS, Missing, Starting
	KindHeld     Kind = "held"     // DeadlineNS, RemainingNS, BootID, TTLMS, Ping, Token; again at each renewal
	KindGrouped  Kind = "grouped"  // the group was noted; Watched says whether it can be seen
	KindLosing   Kind = "losing"   // Reason, RemainingNS
	KindLost     Kind = "lost"     // Reason
	KindReleased Kind = "released" // the lock is free for others
	KindFailed   Kind = "failed"   // Code, Message and the facts of KindWaiting
)

// The reasons of KindLosing.
const (
	// ReasonNotRenewed warns: unless the agent reaches its members again, the lock
	// is lost at the deadline.
	ReasonNotRenewed = "not renewed"
	// ReasonClosing asks to end now: the agent shuts down, and the deadline that
	// was told last will not move on.
	ReasonClosing = "closing"
	// ReasonClosed, of KindLost, says that the agent has ended.
	ReasonClosed = "closed"
)

// State is one line of a response.
type State struct {
	State Kind `json:"state"`

	Ahead    int      `json:"ahead,omitempty"`    // requests before this one
	Holder   string   `json:"holder,omitempty"`   // the node that has the lock
	SinceMS  int64    `json:"since_ms,omitempty"` // for how long it has had it
	Missing  []string `json:"missing,omitempty"`  // members that do not answer
	Starting []string `json:"starting,omitempty"` // members that were started too lately to grant

	// DeadlineNS is a reading of CLOCK_BOOTTIME, on the machine with BootID, until
	// which the lock is held if nothing more is heard. A caller elsewhere counts
	// RemainingNS from the moment at which it sent ping number Ping (0: the Hello).
	DeadlineNS  int64  `json:"deadline_ns,omitempty"`
	RemainingNS int64  `json:"remaining_ns,omitempty"`
	BootID      string `json:"boot_id,omitempty"`
	TTLMS       int64  `json:"ttl_ms,omitempty"`
	Ping        uint64 `json:"ping,omitempty"`
	Token       uint64 `json:"token,omitempty"`

	Watched bool   `json:"watched,omitempty"`
	Reason  string `json:"reason,omitempty"`

	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Code says why a lock was not had, for programs.
type Code string

// The codes of failures.
const (
	CodeBusy        Code = "busy"
	CodeNoQuorum    Code = "no_quorum"
	CodePeersDiffer Code = "peers_differ"
	CodeOverloaded  Code = "overloaded"
	CodeInvalidName Code = "invalid_name"
	CodeClosed      Code = "closed"
	CodeBadRequest  Code = "bad_request"
	CodeForbidden   Code = "forbidden"
	CodeInternal    Code = "internal"
)

// Error is an error with a code, as the body of a refused request has it and
// as a last State does. The facts are those that the code has.
type Error struct {
	Code     Code     `json:"code"`
	Message  string   `json:"message"`
	Holder   string   `json:"holder,omitempty"`
	Ahead    int      `json:"ahead,omitempty"`
	SinceMS  int64    `json:"since_ms,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	Starting []string `json:"starting,omitempty"` // members that were started too lately to grant
}

// Error returns the message, without the library's prefix.
func (f *Error) Error() string { return strings.TrimPrefix(f.Message, "dmutex: ") }

func (f *Error) state() State {
	return State{
		State: KindFailed, Code: f.Code, Message: f.Message,
		Holder: f.Holder, Ahead: f.Ahead, SinceMS: f.SinceMS, Missing: f.Missing, Starting: f.Starting,
	}
}

// Failure returns the failure that a KindFailed state tells of.
func (s *State) Failure() *Error {
	return &Error{
		Code: s.Code, Message: s.Message,
		Holder: s.Holder, Ahead: s.Ahead, SinceMS: s.SinceMS, Missing: s.Missing, Starting: s.Starting,
	}
}

func badRequest(format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

// Status is the answer of GET /v1/status.
type Status struct {
	Name    string            `json:"name"`
	Address string            `json:"address,omitempty"`
	Ready   bool              `json:"ready"`
	Reason  string            `json:"reason,omitempty"` // why it is not ready
	TTLMS   int64             `json:"ttl_ms"`
	Members []Member          `json:"members"`
	Stats   map[string]uint64 `json:"stats"`
	Holds   int               `json:"holds"` // holds and waits of this interface
}

// Member is what a node knows of one member.
type Member struct {
	Name  string  `json:"name"`
	Up    bool    `json:"up"`
	Self  bool    `json:"self,omitempty"`
	RTTMS float64 `json:"rtt_ms"`
	Vote  string  `json:"vote,omitempty"`
}
