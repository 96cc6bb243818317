package node

// CallID names one call of Lock or TryLock, and the lease that comes of it. The
// caller of the core chooses it and never uses one twice.
type CallID uint64

// EventType is the kind of an Event.
type EventType uint8

// The events.
const (
	EventAcquired     EventType = iota + 1 // Call has the lock until Deadline, if nothing more is heard
	EventFailed                            // Call ends without the lock; Failure and Facts say why
	EventLost                              // Call's lease is lost for good; Loss says why
	EventDeadline                          // Call's deadline moved to Deadline, earlier or later
	EventToken                             // Call's fencing token is fixed: Token
	EventWaiting                           // Call, which asked to be told, waits as Facts say
	EventPeerDiffers                       // Peer runs with another configuration
	EventPeerUp                            // Peer counts as up
	EventPeerDown                          // Peer counts as not up
	EventPeerStarting                      // the same, because it was started lately and is quarantined
	EventReplaced                          // another process runs under this node's name: stop
	EventRestarted                         // this node took a higher incarnation and begins anew
	EventDropped                           // a message of Peer was dropped as invalid; Text says why
)

// Failure says why a call ended without the lock.
type Failure uint8

// The failures.
const (
	FailBusy       Failure = iota + 1 // somebody else has the lock, or stands first
	FailNoQuorum                      // too few members answer
	FailDiffers                       // members run with another configuration
	FailOverloaded                    // a queue is full
	FailClosed                        // the node is shut down
)

// Loss says why a lease was lost.
type Loss uint8

// The losses.
const (
	LossExpired  Loss = iota + 1 // the deadline passed though enough members are up
	LossCutOff                   // the deadline passed with too few members up
	LossClosed                   // the node was shut down
	LossReplaced                 // another process runs under this name
)

// Facts say what a call knows of its lock while it waits, and when it fails.
type Facts struct {
	Queued   bool     // some member has queued the request behind Owner
	Owner    string   // the node that a member has granted, this one when a local caller holds
	Holds    bool     // Owner is known to hold, not only to be granted
	Since    Duration // for how long Owner has had the grant
	Ahead    int      // requests before this one at the member with the most
	Missing  []string // members that do not count as up, those in Starting left out, sorted
	Starting []string // members that answer, but were started lately and are quarantined, sorted
	Differs  []string // members with another configuration, sorted
}

// Event tells the driver what happened. Fields that do not belong to the type
// are zero.
type Event struct {
	Type     EventType
	Call     CallID
	Lock     string
	Deadline Instant
	Token    uint64
	Failure  Failure
	Loss     Loss
	Facts    Facts
	Peer     string
	Text     string
}

// Output is what a step leaves for the driver. Both slices belong to the node
// and are valid until the next call of any of its methods.
type Output struct {
	Messages []Message // to send, in this order
	Events   []Event   // to tell, in this order
}
