package transport

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"time"
)

// Limits bound what a TCP transport keeps and how long it waits. A zero field
// takes the default.
type Limits struct {
	// QueueMessages and QueueBytes bound what waits for one connection (default
	// 1,024 messages, 1 MiB). Beyond, the oldest message is lost. Each connection
	// may hold 64 KiB more while they are being written.
	QueueMessages int
	QueueBytes    int
	// QueueAge is how old a message may be when it is written (default 2 s). What
	// has waited longer, for a connection or a slow receiver, is lost instead of
	// late: the rules have repeated it by then.
	QueueAge time.Duration
	// Dial bounds one attempt to connect, name resolution included (default 5 s).
	// A lost SYN is repeated by the kernel after 1, 3 and 7 s: shorter means a
	// fresh attempt sooner after a cut has healed.
	Dial time.Duration
	// Handshake bounds the exchange of hellos (default 5 s).
	Handshake time.Duration
	// Read bounds how long the rest of a started frame may take, Write how long
	// one write may (default 5 s each). The connection is closed then.
	Read, Write time.Duration
	// BackoffMin and BackoffMax bound the wait before a peer is dialed again: a
	// random time between 0 and BackoffMin x 2^failures, at most BackoffMax
	// (default 20 ms and 1 s). A connection that lived for BackoffMax sets the
	// failures back to none.
	BackoffMin, BackoffMax time.Duration
	// Redial is for how long after the last Send to a peer a connection that
	// ended is dialed again, without waiting for the next Send, so that answers can
	// come in (default 10 s).
	Redial time.Duration
	// Drain bounds how long Close sends what is queued (default 500 ms).
	Drain time.Duration
	// ConnsPerPeer is how many accepted connections may give the same node name
	// (default 8). Beyond, the oldest is closed: it is the likeliest to be dead.
	ConnsPerPeer int
}

// withDefaults fills the fields that are not set.
func (l Limits) withDefaults() Limits {
	setDefault(&l.QueueMessages, 1024)
	setDefault(&l.QueueBytes, 1<<20)
	setDefault(&l.QueueAge, 2*time.Second)
	setDefault(&l.Dial, 5*time.Second)
	setDefault(&l.Handshake, defaultHandshake)
	setDefault(&l.Read, 5*time.Second)
	setDefault(&l.Write, 5*time.Second)
	setDefault(&l.BackoffMin, 20*time.Millisecond)
	setDefault(&l.BackoffMax, time.Second)
	setDefault(&l.Redial, 10*time.Second)
	setDefault(&l.Drain, 500*time.Millisecond)
	setDefault(&l.ConnsPerPeer, 8)
	return l
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// TCPConfig says who a TCP transport is and whom it can reach.
type TCPConfig struct {
	// Name is this node's name, 1 to 128 bytes of UTF-8 without control
	// characters. Messages that it sends carry it as From.
	Name string
	// Cluster must be the same text at both ends of a connection, at most 128 bytes
	// without control characters; it may be empty.
	Cluster string
	// Client says that this node answers nobody; it then has no Port. A member has
	// one.
	Client bool
	// Peers gives the address ("host:port") of each node that can be dialed. The
	// host name is resolved again at each dial. NewTCP copies the map. A name
	// that is not listed can only be answered.
	Peers map[string]string
	// Resolve, when set, is asked instead of Peers, at each Send to a name that
	// was not dialed before and at each dial. It is called by several goroutines
	// and must not block. It must know a bounded number of names: a goroutine is
	// kept for each that was dialed.
	Resolve func(name string) (addr string, ok bool)
	// Port is where members accept connections. The transport does not close it;
	// its owner does, after the transport.
	Port *Port
	// Seed drives the jitter of reconnects. Nodes should differ in it, or they
	// dial a restarted peer in step.
	Seed uint64
	// Limits; the zero value takes the defaults.
	Limits Limits
}

// validate joins everything that is wrong.
func (c *TCPConfig) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, args...)...))
	}
	if problem := checkText(c.Name, 1, MaxNodeName); problem != "" {
		bad("Name %q %s", c.Name, problem)
	}
	if problem := checkText(c.Cluster, 0, MaxNodeName); problem != "" {
		bad("Cluster %q %s", c.Cluster, problem)
	}
	if c.Client && c.Port != nil {
		bad("a client listens on nothing: leave Port out or Client false")
	}
	if !c.Client && c.Port == nil {
		bad("a member needs a Port: give it the one from Listen, or set Client")
	}
	for name, addr := range c.Peers {
		if problem := checkText(name, 1, MaxNodeName); problem != "" {
			bad("peer name %q %s", name, problem)
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad("address of peer %q: %w: write it as host:port", name, err)
		}
	}
	return errors.Join(errs...)
}

// resolver returns where names are looked up, independent of the caller's map.
func (c *TCPConfig) resolver() func(string) (string, bool) {
	if c.Resolve != nil {
		return c.Resolve
	}
	peers := maps.Clone(c.Peers)
	return func(name string) (string, bool) {
		addr, ok := peers[name]
		return addr, ok
	}
}
