package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"
	"github.com/sirupsen/logrus"
)

// Limits. Peers and names are the limits of the cluster as a whole; the others
// keep what a stranger can cost small.
const (
	maxPeers       = 127
	maxName        = 255
	maxLabel       = memberlist.LabelMaxSize
	maxStreams     = 64        // inbound connections open at once
	maxStreamBytes = 256 << 10 // read from one connection; a full view of 127 members is well below
	maxAddresses   = 4         // addresses used of one host name
	streamTimeout  = 5 * time.Second
	dialTimeout    = 2 * time.Second
	resolveTimeout = 2 * time.Second
	addressTTL     = 3 * time.Second        // a host name is looked up again after this time
	unresolvedTTL  = 500 * time.Millisecond // the same while it has no address at all
	leaveTimeout   = 400 * time.Millisecond

	minRetransmit     = 4
	maxGossipInterval = 200 * time.Millisecond
)

// ErrConfig is wrapped by every error of [Start] that the caller has to repair in
// its [Config].
var ErrConfig = errors.New("gossip: unusable configuration")

// Timing chooses how quickly failures are noticed and how much traffic that
// costs.
type Timing uint8

// The timings.
const (
	TimingLAN   Timing = iota // default: probe each second, seconds until a crash is noticed
	TimingLocal               // one machine: short time-outs
	TimingWAN                 // long round trips: probe every 5 s
)

// String names the timing.
func (t Timing) String() string {
	switch t {
	case TimingLAN:
		return "LAN"
	case TimingLocal:
		return "Local"
	case TimingWAN:
		return "WAN"
	}
	return fmt.Sprintf("Timing(%d)", uint8(t))
}

// Peer is one entry of the list of members.
type Peer struct {
	Name string // unique in the cluster, 1 to 255 bytes of UTF-8 without control characters
	Addr string // "host:port"; the host may be a name
}

// Config says who takes part and over what. [Start] copies it and never writes to
// it.
type Config struct {
	// Name is this node's own name. It must be on the list of peers.
	Name string

	// Cluster goes in front of every packet and stream as a label, at most 255
	// bytes. Traffic with another label is dropped: it keeps two clusters apart
	// that were pointed at each other by mistake. It is no secret.
	Cluster string

	// Peers are all members of the cluster, at most 127, this node included.
	Peers []Peer

	// Conns brings inbound gossip connections, nothing read from them yet. The
	// package owns a connection once it has received it, and receives none after
	// Close: what is still in the channel then belongs to the sender. Closing the channel
	// is allowed and means that no more will come.
	Conns <-chan net.Conn

	// Packets is the shared UDP socket. From Start to Close only this package
	// reads from it and sets its read deadline; it is written to from many
	// goroutines. Its owner closes it, best after Close.
	Packets net.PacketConn

	// Timing is LAN when zero.
	Timing Timing

	// JoinInterval is the time between two attempts to reach the peers that are
	// not in the view, give or take a quarter. Shorter: a node that starts is found earlier;
	// longer: fewer futile dials. Zero: 1 s, 3 s or 10 s for Local, LAN, WAN.
	JoinInterval time.Duration

	// Seed decides the order of joining and the jitter of JoinInterval. Give each
	// node another one, so that nodes started together do not stay in step.
	// memberlist has a source of its own, which no seed reaches.
	Seed uint64

	// Logger receives what memberlist logs (debug and warning, bounded in length
	// and rate) and the failures to join (debug). Nil: silent.
	Logger logrus.FieldLogger

	// Resolve turns a peer's Addr into addresses, the best first; it must return when
	// its context ends. It is never called for a literal IP address unless it is set. Nil: the
	// resolver of the system.
	Resolve func(ctx context.Context, addr string) ([]netip.AddrPort, error)

	// Hooks of this package's own tests.
	dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	tune func(*memberlist.Config)
}

// validate reports all faults at once.
func (c *Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	if len(c.Cluster) > maxLabel {
		fault("the cluster name has %d bytes, at most %d are allowed", len(c.Cluster), maxLabel)
	}
	if c.Packets == nil {
		fault("Packets is nil, give it the UDP socket of the member port")
	}
	if c.Conns == nil {
		fault("Conns is nil, give it the channel of inbound gossip connections")
	}
	if c.Timing > TimingWAN {
		fault("%v is no timing, use TimingLocal, TimingLAN or TimingWAN", c.Timing)
	}
	if c.JoinInterval < 0 {
		fault("JoinInterval is %v, it must not be negative", c.JoinInterval)
	}
	faults = append(faults, c.validatePeers()...)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(faults...))
}

func (c *Config) validatePeers() []error {
	var faults []error
	if len(c.Peers) > maxPeers {
		return []error{fmt.Errorf("the list has %d peers, at most %d are allowed", len(c.Peers), maxPeers)}
	}
	seen := make(map[string]bool, len(c.Peers))
	for _, p := range c.Peers {
		if !validName(p.Name) {
			faults = append(faults, fmt.Errorf("peer name %.80q must be 1 to %d bytes of UTF-8 without control characters", p.Name, maxName))
		}
		if seen[p.Name] {
			faults = append(faults, fmt.Errorf("peer %q is on the list twice, remove one", p.Name))
		}
		seen[p.Name] = true
		if _, _, err := net.SplitHostPort(p.Addr); err != nil {
			faults = append(faults, fmt.Errorf("peer %q: write its address as host:port: %w", p.Name, err))
		}
	}
	if !seen[c.Name] {
		faults = append(faults, fmt.Errorf("this node, %q, is not on the list of peers, add it", c.Name))
	}
	return faults
}

func validName(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// joinInterval is the mean time between two rounds of joining.
func (c *Config) joinInterval() time.Duration {
	if c.JoinInterval > 0 {
		return c.JoinInterval
	}
	switch c.Timing {
	case TimingLocal:
		return time.Second
	case TimingWAN:
		return 10 * time.Second
	case TimingLAN:
	}
	return 3 * time.Second
}

// memberlistConfig builds a fresh configuration; memberlist writes to the one
// that it is given.
func (c *Config) memberlistConfig(t *netTransport, v *view, logTo *logWriter) *memberlist.Config {
	var m *memberlist.Config
	switch c.Timing {
	case TimingLocal:
		m = memberlist.DefaultLocalConfig()
	case TimingWAN:
		m = memberlist.DefaultWANConfig()
	case TimingLAN:
		m = memberlist.DefaultLANConfig()
	}
	m.Name = c.Name
	m.Label = c.Cluster
	m.Transport = t
	m.Logger = log.New(logTo, "", 0)
	m.Events, m.Alive, m.Conflict = v, v, v
	m.Delegate = nil // no user messages, no meta, no user state
	m.BindAddr, m.BindPort = placeholderIP, placeholderPort
	m.AdvertiseAddr, m.AdvertisePort = placeholderIP, placeholderPort
	// Names lead to addresses here, so a send without a name has no goal.
	m.RequireNodeNames = true
	// Packets are small, and an unpacker is one more thing to attack.
	m.EnableCompression = false
	// A piece of news is passed on this often, by each node, whomever to; with the 2
	// of the local preset all of it may go to the one member that it is about.
	m.RetransmitMult = max(m.RetransmitMult, minRetransmit)
	m.TCPTimeout = min(m.TCPTimeout, streamTimeout)
	// Nothing is sent while there is no news, so this costs nothing; it lets the
	// farewell out in the short time that Close has.
	m.GossipInterval = min(m.GossipInterval, maxGossipInterval)
	// All of us advertise the same placeholder. Should a foreign program have
	// taken a name with another address, let the rightful one have it back as soon
	// as the first is dead.
	m.DeadNodeReclaimTime = m.ProbeInterval
	if c.tune != nil {
		c.tune(m)
	}
	return m
}
