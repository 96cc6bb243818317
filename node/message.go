package node

import "fmt"

// Instant is a moment on one machine's CLOCK_BOOTTIME, in nanoseconds. Instants
// of different machines must never be compared.
type Instant int64

// Duration is a length of time in nanoseconds, on the clock of whoever
// measures it.
type Duration int64

// Units of Duration.
const (
	Microsecond Duration = 1000
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
)

// Add returns the moment d after t.
func (t Instant) Add(d Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) Duration { return Duration(t - u) }

// Timestamp is a reading of the hybrid logical clock: nanoseconds close to wall
// time, never behind a timestamp seen. Timestamps order requests and decide
// nothing else.
type Timestamp int64

// MaxTimestamp is the highest timestamp that a message may carry.
const MaxTimestamp Timestamp = 1 << 62

// Incarnation tells apart the processes that run under one node name one after
// the other. The zero Incarnation means "not known yet".
type Incarnation struct {
	Start  int64  // wall-clock nanoseconds when the process started
	Random uint64 // decides between two starts at one reading of the clock
}

// Compare orders incarnations by start, then by the random part.
func (i Incarnation) Compare(j Incarnation) int {
	switch {
	case i.Start < j.Start:
		return -1
	case i.Start > j.Start:
		return 1
	case i.Random < j.Random:
		return -1
	case i.Random > j.Random:
		return 1
	}
	return 0
}

// IsZero reports whether i is unknown.
func (i Incarnation) IsZero() bool { return i == Incarnation{} }

// String prints the incarnation the way log lines show it.
func (i Incarnation) String() string { return fmt.Sprintf("%x-%x", i.Start, i.Random) }

// RequestID numbers the requests of one node. It is never used again.
type RequestID struct {
	Incarnation Incarnation
	Counter     uint64
}

// IsZero reports whether the id names no request.
func (id RequestID) IsZero() bool { return id == RequestID{} }

// Vote is what a member says in every answer: which rule of holding it supports.
type Vote uint8

// The votes.
const (
	VoteNone     Vote = iota // quarantined, or between two votes
	VoteTree                 // rule T
	VoteMajority             // rule M
)

// String names the vote.
func (v Vote) String() string {
	switch v {
	case VoteNone:
		return "none"
	case VoteTree:
		return "tree"
	case VoteMajority:
		return "majority"
	}
	return "unknown"
}

// MessageType is the kind of a message.
type MessageType uint8

// The message types. The direction stands behind each; doc.go has the table.
const (
	MsgRequest       MessageType = iota + 1 // requester to member
	MsgGrant                                // member to requester
	MsgQueued                               // member to requester
	MsgInquire                              // member to requester
	MsgYield                                // requester to member
	MsgRelease                              // requester to member
	MsgValidate                             // member to requester
	MsgValidateReply                        // requester to member
	MsgKeepAlive                            // requester to member
	MsgKeepAliveAck                         // member to requester
	MsgCommit                               // requester to member
	MsgCommitted                            // member to requester
	MsgReadFloors                           // restarted member, as requester, to member
	MsgFloors                               // member to requester
	MsgNotReady                             // member to requester
	MsgGoodbye                              // requester to member
	maxMessageType
)

// Valid reports whether t is a type of this protocol version.
func (t MessageType) Valid() bool { return t >= MsgRequest && t < maxMessageType }

// FromMember reports whether messages of this type are answers: they go from a
// member to a requester, on the connection that the requester opened.
func (t MessageType) FromMember() bool {
	switch t {
	case MsgGrant, MsgQueued, MsgInquire, MsgValidate, MsgKeepAliveAck, MsgCommitted, MsgFloors, MsgNotReady:
		return true
	case MsgRequest, MsgYield, MsgRelease, MsgValidateReply, MsgKeepAlive, MsgCommit, MsgReadFloors, MsgGoodbye, maxMessageType:
		return false
	}
	return false
}

// String names the type as protocol documents do.
func (t MessageType) String() string {
	switch t {
	case MsgRequest:
		return "Request"
	case MsgGrant:
		return "Grant"
	case MsgQueued:
		return "Queued"
	case MsgInquire:
		return "Inquire"
	case MsgYield:
		return "Yield"
	case MsgRelease:
		return "Release"
	case MsgValidate:
		return "Validate"
	case MsgValidateReply:
		return "ValidateReply"
	case MsgKeepAlive:
		return "KeepAlive"
	case MsgKeepAliveAck:
		return "KeepAliveAck"
	case MsgCommit:
		return "Commit"
	case MsgCommitted:
		return "Committed"
	case MsgReadFloors:
		return "ReadFloors"
	case MsgFloors:
		return "Floors"
	case MsgNotReady:
		return "NotReady"
	case MsgGoodbye:
		return "Goodbye"
	case maxMessageType:
	}
	return fmt.Sprintf("MessageType(%d)", uint8(t))
}

// RequestState is what a requester says of one of its requests.
type RequestState uint8

// The states that a ValidateReply can carry.
const (
	StateOver    RequestState = iota + 1 // no longer interested
	StateWaiting                         // still waiting
	StateHolding                         // holds the lock
)

// NotReadyReason says why a member refuses.
type NotReadyReason uint8

// The reasons of NotReady.
const (
	ReasonQuarantined     NotReadyReason = iota + 1 // restarted less than T(1+d) ago
	ReasonShuttingDown                              // said goodbye, or about to
	ReasonNotMember                                 // the receiver answers nobody
	ReasonFingerprint                               // another configuration
	ReasonQueueFull                                 // the lock's queue, or the number of locks, is at its limit
	ReasonOldIncarnation                            // a newer process of the sender's name was heard; Other names it
	ReasonTooManySessions                           // the member serves as many nodes as it may
	maxNotReadyReason
)

// String says the reason in words.
func (r NotReadyReason) String() string {
	switch r {
	case ReasonQuarantined:
		return "quarantined"
	case ReasonShuttingDown:
		return "shutting down"
	case ReasonNotMember:
		return "not a member"
	case ReasonFingerprint:
		return "other fingerprint"
	case ReasonQueueFull:
		return "queue full"
	case ReasonOldIncarnation:
		return "newer incarnation known"
	case ReasonTooManySessions:
		return "too many sessions"
	case maxNotReadyReason:
	}
	return "unknown"
}

// Message is one message of the protocol. It is a flat struct, so that it can be
// copied, compared and encoded without reflection. Each type uses the common
// header, Sent or what all answers carry, and the fields whose comment names it;
// Lock and ID belong to all types but KeepAlive, KeepAliveAck, ReadFloors, Floors
// and Goodbye. All other fields are zero.
type Message struct {
	Type            MessageType
	From            string      // the sender's name
	To              string      // the receiver's name
	FromIncarnation Incarnation // the sender's incarnation
	ToIncarnation   Incarnation // the receiver's, as the sender knows it; zero: not known yet
	Fingerprint     uint64      // hash of all that must be equal in a cluster
	Timestamp       Timestamp   // the sender's hybrid logical clock

	Sent Instant // requester to member: send time on the requester's clock

	Echo    Instant // answers: the latest send time received in this session
	Session uint64  // answers: session number; 0 when there is none
	Vote    Vote    // answers: the member's vote

	Lock         string         // the lock's name
	ID           RequestID      // the request that this message is about
	RequestTime  Timestamp      // Request: the request's place in the order
	Holding      bool           // Request: from a holder that repairs its quorum
	Label        string         // Request: for people
	Number       uint64         // Grant, Inquire, Yield, Validate, ValidateReply: grant number
	Token        uint64         // Commit, Committed: the proposed fencing token
	Floor        uint64         // Grant, Committed: highest token taken; Floors: the highest of all
	OK           bool           // Committed: taken; Floors: the sender knows its floors
	Ahead        uint32         // Queued: requests before this one, the granted one counted
	Owner        string         // Queued: whom the member has granted
	OwnerHolds   bool           // Queued: Validate said that the owner holds
	Since        Duration       // Queued: for how long the owner has had the grant
	State        RequestState   // ValidateReply
	NeedMajority bool           // KeepAlive: the sender asks for rule M
	Other        Incarnation    // KeepAliveAck, NotReady: highest other incarnation of the receiver known
	Round        uint64         // ReadFloors, Floors: tells apart the attempts to read
	Reason       NotReadyReason // NotReady
}
