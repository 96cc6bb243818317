package transport

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// defaultMemoryQueue is how many messages may be under way from one node to
// another.
const defaultMemoryQueue = 1024

// NetworkConfig says how an in-memory network treats messages. The zero value
// delivers everything at once and in order.
type NetworkConfig struct {
	// Seed drives delays, losses and doubles. With one goroutine that sends, the
	// same seed and the same calls give the same deliveries.
	Seed uint64
	// MinDelay and MaxDelay are how long a message takes one way; drawn evenly
	// between the two. MaxDelay below MinDelay counts as MinDelay.
	MinDelay, MaxDelay time.Duration
	// Loss and Duplicate are the shares of messages that get lost, or arrive
	// twice, between 0 and 1.
	Loss, Duplicate float64
	// Reorder lets a message overtake an earlier one from the same node. Without
	// it each link keeps the order, as a TCP connection does.
	Reorder bool
	// QueueMessages bounds what is under way from one node to another (default
	// 1,024). Beyond, the oldest is lost.
	QueueMessages int
}

// Network is a network in memory for tests. It has no sockets and waits only on
// channels and timers, so that testing/synctest can drive it in virtual time.
// Messages pass through the codec, as on a real wire. All methods may be called
// at any time by several goroutines; none blocks.
type Network struct {
	cfg NetworkConfig

	mu       sync.Mutex
	rng      *rand.Rand
	nodes    map[string]*memoryNode // those that are started
	links    map[linkKey]*memoryLink
	isolated map[string]bool
}

// linkKey is one direction between two nodes.
type linkKey struct{ from, to string }

// memoryLink is what is set, and what happened last, in one direction.
type memoryLink struct {
	down     bool
	delayed  bool // min and max apply instead of the network's
	min, max time.Duration
	lastDue  time.Time // when the latest message arrives
}

// NewNetwork returns an empty network. It has no goroutine of its own.
func NewNetwork(cfg NetworkConfig) *Network {
	if cfg.QueueMessages <= 0 {
		cfg.QueueMessages = defaultMemoryQueue
	}
	return &Network{
		cfg:      cfg,
		rng:      rand.New(rand.NewPCG(cfg.Seed, 0)), //nolint:gosec // faults must be repeatable
		nodes:    make(map[string]*memoryNode),
		links:    make(map[linkKey]*memoryLink),
		isolated: make(map[string]bool),
	}
}

// Join returns a transport for the named node. It is on the network from Start to
// Close; a name may join again after that. Start returns [ErrNameTaken], wrapped,
// while another one of that name is there.
func (n *Network) Join(name string) Transport { return newMemoryNode(n, name) }

// SetLink cuts (up false) or mends one direction between two nodes. Messages that
// are under way still arrive.
func (n *Network) SetLink(from, to string, up bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).down = !up
}

// Isolate cuts a node off from all others, both ways, or ends that. Links cut
// with SetLink stay cut.
func (n *Network) Isolate(name string, isolated bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isolated {
		n.isolated[name] = true
		return
	}
	delete(n.isolated, name)
}

// SetDelay sets how long messages take in one direction between two nodes.
func (n *Network) SetDelay(from, to string, minDelay, maxDelay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(from, to)
	l.delayed, l.min, l.max = true, minDelay, maxDelay
}

// SetFaults changes the shares of lost and doubled messages for all links.
func (n *Network) SetFaults(loss, duplicate float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.Loss, n.cfg.Duplicate = loss, duplicate
}

// link returns the state of one direction; n.mu is held.
func (n *Network) link(from, to string) *memoryLink {
	key := linkKey{from: from, to: to}
	l := n.links[key]
	if l == nil {
		l = new(memoryLink)
		n.links[key] = l
	}
	return l
}

// join puts a node on the network.
func (n *Network) join(node *memoryNode) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[node.name] != nil {
		return fmt.Errorf("%w: %q has not left the network: close it first", ErrNameTaken, node.name)
	}
	n.nodes[node.name] = node
	return nil
}

// leave takes a node off.
func (n *Network) leave(node *memoryNode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[node.name] == node {
		delete(n.nodes, node.name)
	}
}

// parcel is one encoded message or one hint on its way.
type parcel struct {
	due     time.Time
	seq     uint64 // order of sending among those due together
	from    string
	payload []byte // nil: a hint that from refused a connection
}

// send decides what happens to a message. It returns false when it is lost
// because nobody can get it, and true also when it is lost by a fault.
func (n *Network) send(from *memoryNode, to string, payload []byte, answer bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	link := n.link(from.name, to)
	back := n.link(to, from.name)
	if link.down || n.isolated[from.name] || n.isolated[to] {
		return true
	}
	if n.rng.Float64() < n.cfg.Loss {
		return true
	}
	now := time.Now()
	there := n.delay(link)
	receiver := n.nodes[to]
	if receiver == nil {
		if !answer && !back.down {
			from.inbox.hint(to, now.Add(there+n.delay(back)))
		}
		return false
	}
	copies := 1
	if n.rng.Float64() < n.cfg.Duplicate {
		copies = 2
	}
	for range copies {
		due := now.Add(there)
		if !n.cfg.Reorder && due.Before(link.lastDue) {
			due = link.lastDue
		}
		link.lastDue = due
		receiver.inbox.put(parcel{due: due, from: from.name, payload: payload}, n.cfg.QueueMessages, &from.count)
		there = n.delay(link)
	}
	return true
}

// delay draws how long a message takes on a link; n.mu is held.
func (n *Network) delay(l *memoryLink) time.Duration {
	lowest, highest := n.cfg.MinDelay, n.cfg.MaxDelay
	if l.delayed {
		lowest, highest = l.min, l.max
	}
	if highest <= lowest {
		return lowest
	}
	return lowest + time.Duration(n.rng.Int64N(int64(highest-lowest)+1))
}
