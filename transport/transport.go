// Package transport carries [node.Message] values between the nodes of a
// cluster. A message that cannot be sent is lost: the rules of package node
// repeat what matters, so nothing here reports a failed send as an error.
//
// # Connections
//
// [TCP] keeps long-lived connections. Each requester dials the members that it
// talks to, and a member answers on the connection that the requester dialed,
// so two members that ask one another have one connection each way. One shared
// connection would save a socket, but one each way
//
//   - lets a client, which listens on nothing, work exactly as a member does,
//   - needs no tie-break when two nodes dial each other at the same moment,
//   - keeps a failure of one direction from breaking the other.
//
// Send therefore looks at the type of a message: answers (see
// [node.MessageType.FromMember]) go to the newest live connection on which the
// receiver's process has spoken, or else to the newest that its name has dialed;
// everything else goes to a connection that is dialed on demand.
//
// # Wire
//
// A connection starts with the four bytes of the preamble, then both sides send
// frames: a length of four bytes (big endian, 1 to [MaxFrame]) and a payload. The
// first frame each way is a hello, see hello.go; every other frame is one
// message, see codec.go.
//
// # Goroutines
//
// [TCP] has one goroutine for each peer that it dials, which dials and writes; one
// reader for each connection; and one writer for each accepted connection.
// [Port] has one that accepts and a short-lived one for each connection whose
// first byte has not arrived. [Network] has one for each node that joined. All end
// with Close.
package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/treequorum/dmutex/node"
)

// Errors of this package. Each is wrapped with what happened and what to do.
var (
	// ErrClosed is returned by Start after Close.
	ErrClosed = errors.New("transport: closed")
	// ErrStarted is returned by a second Start.
	ErrStarted = errors.New("transport: already started")
	// ErrPortTaken is returned by Listen when the address is in use.
	ErrPortTaken = errors.New("transport: address in use")
	// ErrNameTaken is returned when a node of the same name is on the network.
	ErrNameTaken = errors.New("transport: name in use")
	// ErrInvalidFrame marks a frame that is no valid message of this version.
	ErrInvalidFrame = errors.New("transport: invalid frame")
	// ErrInvalidMessage marks a message that cannot be encoded.
	ErrInvalidMessage = errors.New("transport: invalid message")
	// ErrHandshake marks a connection whose first frames were not as expected.
	ErrHandshake = errors.New("transport: handshake failed")
	// ErrInvalidConfig marks a configuration that cannot work.
	ErrInvalidConfig = errors.New("transport: invalid configuration")
)

// Handler is what a transport calls. The calls come from the transport's own
// goroutines, several at a time; after Close has returned nil there are none.
type Handler interface {
	// Deliver hands over a message that arrived. It may block: that is the
	// back-pressure, the connection is not read meanwhile. It must return once
	// the handler's owner closes, or Close cannot end.
	Deliver(m node.Message)
	// PeerRefused says that a connection to the named peer was refused, reset or
	// failed at once: a hint that the peer is down. It must not block.
	PeerRefused(name string)
	// PeerMismatch says that the other end of a connection belongs to another
	// cluster, speaks another version or has another name than expected. It may
	// come again with each attempt (once a second for each peer that is dialed,
	// any rate for what strangers dial): the receiver limits what it logs. It
	// must not block.
	PeerMismatch(m Mismatch)
}

// Transport sends and receives messages for one node.
type Transport interface {
	// Start begins to receive. It does not wait for any peer. It fails with
	// ErrStarted when called twice and with ErrClosed after Close.
	Start(h Handler) error
	// Send hands a message over to be sent to m.To. It never blocks and may be
	// called by several goroutines. When a queue is full the oldest message in it
	// is lost; when no connection is possible (an answer to a client that is
	// gone, a name without an address) m is lost. Before Start and after Close
	// every message is lost.
	Send(m node.Message)
	// Stats returns the counters since Start. It does not block.
	Stats() Stats
	// Close sends what is queued on live connections, for as long as ctx allows
	// and at most a short drain time (500 ms by default), then closes
	// everything and waits for all goroutines. An error means that some did not
	// end, because a Handler blocks. A second Close waits for the first.
	Close(ctx context.Context) error
}

// Stats are the counters of a transport. All but the two gauges only rise.
type Stats struct {
	FramesIn, FramesOut uint64 // messages received and decoded; messages written
	BytesIn, BytesOut   uint64 // bytes of frames, headers counted
	Writes              uint64 // write calls; FramesOut/Writes is the batching

	DroppedFull    uint64 // oldest of a full queue
	DroppedStale   uint64 // waited longer than the queue age for a connection
	DroppedNoRoute uint64 // no address, or nobody to answer to
	DroppedBroken  uint64 // in a write that failed, or left on a connection that ended
	EncodeErrors   uint64 // messages that break the limits of the wire

	Dials            uint64 // connections tried
	DialsRefused     uint64 // of those, refused, reset or failed at once
	DialsFailed      uint64 // of those, failed otherwise (time-out, handshake)
	Mismatches       uint64 // other cluster, version or name, either direction
	HandshakesFailed uint64 // accepted connections without a proper hello
	DecodeErrors     uint64 // frames that were no message; each ends its connection
	Misaddressed     uint64 // messages with another sender or receiver than the hello, or of the wrong direction
	Replaced         uint64 // accepted connections closed because their peer has too many

	Inbound, Outbound int64 // gauges: live connections accepted and dialed
}

// MismatchKind says what two nodes do not agree on.
type MismatchKind uint8

// What a hello can differ in.
const (
	MismatchVersion MismatchKind = iota + 1 // protocol version
	MismatchCluster                         // cluster name
	MismatchName                            // another node than expected answers at this address
)

// String names what differs.
func (k MismatchKind) String() string {
	switch k {
	case MismatchVersion:
		return "protocol version"
	case MismatchCluster:
		return "cluster name"
	case MismatchName:
		return "node name"
	}
	return "unknown"
}

// Mismatch tells how the node at the other end differs from what it should be.
// Texts that came from the other end are printed quoted by String.
type Mismatch struct {
	Kind    MismatchKind
	Peer    string // the name that was dialed, or that the dialing node gave (may be empty)
	Addr    string // remote address of the connection
	Inbound bool   // true when the other end dialed
	Want    string // what this node has or expects
	Got     string // what the other end has or expects
}

// String says in one line what differs and where to look.
func (m Mismatch) String() string {
	direction := "dialed"
	if m.Inbound {
		direction = "was dialed by"
	}
	return fmt.Sprintf("%s differs: this node %s %q at %s and has %q, the other end has %q: "+
		"compare the two configurations, and the address listed for that name", m.Kind, direction, m.Peer, m.Addr, m.Want, m.Got)
}

// mismatchError carries a Mismatch out of a handshake.
type mismatchError struct{ Mismatch }

// Error says what differs.
func (e mismatchError) Error() string { return "transport: " + e.String() }
