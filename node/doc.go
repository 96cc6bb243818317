// Package node is the protocol of dmutex: who may hold a lock, and when. It is
// pure and deterministic. A [Node] is stepped by its driver with the time and a
// message, and leaves messages to send and events to tell; the same calls with
// the same arguments leave the same bytes. It does no I/O, reads no clock, starts
// no goroutine, and takes chance as a seed.
//
// # Roles
//
// A member grants: each lock at each member has one grant and a queue. A requester
// asks: it holds a lock while the grants that count include a quorum of the tree
// ([quorum.Tree]), and a majority of members each grant or vote for the tree (rule T).
// When no quorum of the tree is left, members vote for the majority instead, and any
// majority of grants with such votes holds (rule M). A
// member is a requester too; a node that is not on the list of members is a client,
// a requester only. T is the lease TTL, d the bound on the drift of clocks.
//
// # Messages
//
// Every message carries sender and incarnation, the receiver and its incarnation as
// far as known, the fingerprint of the configuration, and a timestamp. Messages to a
// member carry their send time. Answers carry the echo (the latest send time
// received), the session number and the member's vote.
//
//	Request        to member     asks for consent; Holding: by a holder that repairs its quorum
//	Grant          to requester  consent, with a number
//	Queued         to requester  wait; says whom the member has granted
//	Inquire        to requester  a request with a lower timestamp waits behind this grant
//	Yield          to member     take that grant back, keep the request in the queue
//	Release        to member     this id is over, for ever
//	Validate       to requester  is this request holding, waiting or over?
//	ValidateReply  to member     the answer
//	KeepAlive      to member     renews the session
//	KeepAliveAck   to requester  the answer; names another incarnation of the requester
//	Commit         to member     fixes a fencing token
//	Committed      to requester  taken, or the floor that forbids it
//	ReadFloors     to member     of a restarted member: which tokens were taken?
//	Floors         to requester  the answer
//	NotReady       to requester  refused, and why
//	Goodbye        to member     a clean shutdown
//
// # Rules
//
// The number of each rule stands at the branches that implement it and in the name of
// a test that fails without it.
//
//	R1  A member has one grant for a lock at a time; each has a higher number.
//	R2  Queues are ordered by (holding first, timestamp, name).
//	R3  A Request whose id has ended, or is lower than a known one, is ignored.
//	R4  A repeated Request gets the same answer again.
//	R5  A later id of a requester ends its earlier one for that lock.
//	R6  A member Inquires while a request stands before the one it granted.
//	R7  A Yield counts only with the number of the current grant.
//	R8  A Release ends its id, and no other, whatever the number of its grant.
//	R9  A member Validates while somebody waits; "over" ends the id, silence does not.
//	R10 A session ends after T(1+d) of silence: its grants and requests go, and the next
//	    one has a higher number.
//	R11 A message to or from a former incarnation, or of a former session, is dropped.
//	R12 Request, KeepAlive and ReadFloors of a former incarnation are answered by NotReady.
//	R13 A member that starts is quarantined for T(1+d): it grants, votes and takes nothing.
//	R14 A vote counts for T/3(1-d) from its echo; a member gives another one only
//	    T/3(1+d) after its last answer with the old one.
//	R15 Goodbye ends the session at once; what comes after it is ignored for T(1+d).
//	R16 A requester repeats its Request to all whose grants it lacks, at once when the
//	    session or the incarnation changed.
//	R17 A grant counts for T(1-d) from the latest echo of the incarnation and session that
//	    gave it.
//	R18 A requester that does not hold yields all grants up to the number inquired for,
//	    and never counts them again.
//	R19 It holds when its grants contain a tree quorum, and a majority grants or votes tree.
//	R20 A holder whose deadline has passed has lost the lock for good.
//	R21 A member that does not answer in time, refuses, or is not ready is substituted.
//	R22 A requester that has not heard a member for T leaves it in silence, then sends
//	    KeepAlives only, for T, and so on in turns.
//	R23 A requester that sees fewer than a majority up for T/2 withdraws, and asks again
//	    with its old timestamp and a new id.
//	R24 A holder replaces members of its quorum that are not up; after T/3 it asks all.
//	R25 Once others wait, at most 8 local hand-overs, or T/4, then Release.
//	R26 TryLock takes two round trips and T/24 at the most.
//	R27 A fencing token is fixed by a majority whose answers are all fresh.
//	R28 A restarted member takes tokens only once it has read the floors of the others.
//	R29 Nodes of different configurations refuse each other.
//	R30 A node that hears of a higher incarnation of its name within T(1+d) of its start
//	    takes a still higher one; one that hears of it later stops.
//	R31 Timestamps follow those seen, up to 2^62 ns.
//	R32 Queues, locks, sessions, floors and callers have limits.
//	R33 A requester asks for votes for the majority while it sees no tree quorum up; after
//	    that until it holds by the tree again, or for 2T when it does not hold.
//	R34 It also holds when a majority of members each grants and votes majority (rule M).
//
// # Invariants
//
//	I1 No two nodes hold one lock at one instant.
//	I2 A holder is told of its loss before another node is granted the lock.
//	I3 Tokens of one lock rise with each lease that has one.
//	I4 A member's grant belongs to a live session, and its request is not in the queue.
//
// # The driver's duties
//
// One goroutine owns a Node. It passes the time of one clock that also runs while the
// machine sleeps, calls [Node.Tick] at [Node.Wake] and at least each T/16, sends the
// messages of [Node.Take] in order, and may lose any of them. It calls [Node.SetWall]
// now and then.
package node
