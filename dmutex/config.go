package dmutex

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
)

// Limits on what a Config and the callers may ask for.
const (
	MinLeaseTTL      = 200 * time.Millisecond
	MaxLeaseTTL      = 5 * time.Minute
	MaxDrift         = 0.2 // highest MaxClockDrift
	MaxMembers       = 127
	MaxNodeNameBytes = 128
	MaxLockNameBytes = 255
	MaxLabelBytes    = 128
	MaxClusterBytes  = 64
)

// Peer is one member of the cluster.
type Peer struct {
	Name string // unique; equal on all nodes
	Addr string // host:port for TCP and UDP; a host name is resolved at each dial
}

// Profile names a set of timings for gossip. The lease TTL is set apart.
type Profile string

// The profiles.
const (
	ProfileLocal Profile = "local" // one machine
	ProfileLAN   Profile = "lan"   // one site, delays of a few milliseconds
	ProfileWAN   Profile = "wan"   // across sites, delays of up to 300 ms
)

// Config says who a node is, who its peers are, and how long a silent holder
// keeps a lock. Take one of the default configs and set Name and Peers; Start
// copies what it needs and never writes to it.
//
// Cluster, the names (not the addresses) of Peers, LeaseTTL, MaxClockDrift,
// DisableRotation and TreeOnly must be the same on all nodes. A node that differs
// is refused and gets ErrPeersDiffer. To change them, stop all nodes for
// LeaseTTL x (1 + MaxClockDrift).
type Config struct {
	// Name of this node, 1 to 128 bytes of UTF-8. At most one process may run
	// under a name at a time.
	Name string
	// Cluster name. Nodes of clusters with different names refuse each other.
	Cluster string
	// Listen is the host:port for TCP and UDP, e.g. ":7946". Default: the address
	// that Peers gives for Name. A client listens on nothing.
	Listen string
	// Peers are all members, this node included unless Client is set. Odd
	// numbers are best, 3, 7 and 15 give full trees. At most 127.
	Peers []Peer
	// Client makes this node a requester only: it is not one of Peers, it
	// listens on nothing and grants nothing.
	Client bool
	// Standalone lets a cluster of one member serve only its own process, or its
	// own agent: it listens on nothing, and need not wait LeaseTTL x
	// (1 + MaxClockDrift) after a start before it grants.
	Standalone bool

	// LeaseTTL (T) is how long a holder that falls silent keeps its lock at the
	// most, 200 ms to 5 min. A short one frees locks of crashed holders sooner; a
	// long one lets holders live through longer pauses and cuts. Each node sends
	// a keep-alive to each member each T/4, and each T/8 while it holds or waits.
	LeaseTTL time.Duration
	// MaxClockDrift (d) bounds how far the rate of any machine's clock may be off
	// real time: 0.1, which the default configs have, allows 0.9 to 1.1 seconds a
	// second. At most 0.2. Zero trusts all clocks to run at the very same rate,
	// which none do: it is not a default.
	MaxClockDrift float64
	// DisableRotation gives all locks the same root. By default each lock name
	// has its own, which shares the load.
	DisableRotation bool
	// TreeOnly drops the votes and the majority fallback: a lock can be had
	// exactly when the live members contain a tree quorum.
	TreeOnly bool

	// Profile sets the timing of gossip.
	Profile Profile
	// Logger gets the log. Nil: nothing is logged, not even that a peer's address
	// leads nowhere. Info is quiet in the normal case; warnings say what to do.
	Logger logrus.FieldLogger

	hooks hooks // what tests replace
}

// DefaultLANConfig is for members at one site: T = 3 s. Set Name and Peers.
func DefaultLANConfig() Config {
	return Config{
		Cluster:       "dmutex",
		LeaseTTL:      3 * time.Second,
		MaxClockDrift: 0.1,
		Profile:       ProfileLAN,
	}
}

// DefaultWANConfig is DefaultLANConfig for members across sites: T = 10 s.
func DefaultWANConfig() Config {
	c := DefaultLANConfig()
	c.LeaseTTL = 10 * time.Second
	c.Profile = ProfileWAN
	return c
}

// DefaultLocalConfig is DefaultLANConfig for members on one machine: T = 1 s.
func DefaultLocalConfig() Config {
	c := DefaultLANConfig()
	c.LeaseTTL = time.Second
	c.Profile = ProfileLocal
	return c
}

// ParsePeers reads peers written as "name=host:port", or "host:port", in which
// case the name is the same text.
func ParsePeers(list []string) ([]Peer, error) {
	var peers []Peer
	var errs []error
	for _, text := range list {
		text = strings.TrimSpace(text)
		name, addr, found := strings.Cut(text, "=")
		if !found {
			addr = name
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("dmutex: peer %q: %w; write it as name=host:port or host:port", text, err))
			continue
		}
		peers = append(peers, Peer{Name: name, Addr: addr})
	}
	return peers, errors.Join(errs...)
}

// Validate reports all faults of c at once, each with what to do about it. Start
// calls it.
func (c *Config) Validate() error {
	errs := []error{
		checkText("node name", c.Name, MaxNodeNameBytes),
		checkText("cluster name", c.Cluster, MaxClusterBytes),
		c.validateTiming(),
		c.validatePeers(),
	}
	if c.Client && c.Standalone {
		errs = append(errs, errors.New("dmutex: Client and Standalone exclude each other: a client needs members to ask"))
	}
	if c.Standalone && len(c.Peers) > 1 {
		errs = append(errs, fmt.Errorf("dmutex: Standalone is for one member, Peers lists %d", len(c.Peers)))
	}
	switch c.Profile {
	case ProfileLocal, ProfileLAN, ProfileWAN:
	default:
		errs = append(errs, fmt.Errorf("dmutex: unknown profile %q: use local, lan or wan", c.Profile))
	}
	return errors.Join(errs...)
}

func (c *Config) validateTiming() error {
	var errs []error
	if c.LeaseTTL < MinLeaseTTL || c.LeaseTTL > MaxLeaseTTL {
		errs = append(errs, fmt.Errorf("dmutex: lease TTL %v is out of range: choose %v to %v", c.LeaseTTL, MinLeaseTTL, MaxLeaseTTL))
	}
	if !(c.MaxClockDrift > 0 && c.MaxClockDrift <= MaxDrift) { // also refuses NaN
		errs = append(errs, fmt.Errorf("dmutex: max clock drift %v is out of range: choose above 0 to %v; 0.1 is the usual one, "+
			"and no clock has none", c.MaxClockDrift, MaxDrift))
	}
	return errors.Join(errs...)
}

func (c *Config) validatePeers() error {
	var errs []error
	if len(c.Peers) == 0 {
		errs = append(errs, errors.New("dmutex: no peers: list every member, this node included"))
	}
	if len(c.Peers) > MaxMembers {
		errs = append(errs, fmt.Errorf("dmutex: %d peers, at most %d can be members; make the others clients", len(c.Peers), MaxMembers))
	}
	seen := make(map[string]bool, len(c.Peers))
	for _, p := range c.Peers {
		if err := checkText("peer name", p.Name, MaxNodeNameBytes); err != nil {
			errs = append(errs, err)
		}
		if _, _, err := net.SplitHostPort(p.Addr); err != nil && !c.Standalone {
			errs = append(errs, fmt.Errorf("dmutex: address of peer %q: %w; write host:port", p.Name, err))
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("dmutex: peer %q is listed twice: a member counts once in a quorum", p.Name))
		}
		seen[p.Name] = true
	}
	switch {
	case c.Client && seen[c.Name]:
		errs = append(errs, fmt.Errorf("dmutex: client %q is on the list of peers: unset Client, or take another name", c.Name))
	case !c.Client && !seen[c.Name] && len(c.Peers) > 0:
		errs = append(errs, fmt.Errorf("dmutex: %q is not on its own list of peers (%s): add it, or set Client", c.Name, peerNames(c.Peers)))
	}
	return errors.Join(errs...)
}

func peerNames(peers []Peer) string {
	names := make([]string, 0, len(peers))
	for _, p := range peers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// checkText refuses what would break logs, metrics or other people's screens.
func checkText(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty: give 1 to %d bytes", ErrInvalidName, what, limit)
	case len(s) > limit:
		return fmt.Errorf("%w: %s has %d bytes: at most %d are allowed", ErrInvalidName, what, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrInvalidName, what, s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Errorf("%w: %s %q has the control character %U: leave it out", ErrInvalidName, what, s, r)
		}
	}
	return nil
}
