package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	errUnresolved = errors.New("gossip: the peer's host name has not been resolved yet")
	errNotListed  = errors.New("gossip: name is not on the list of peers")
)

// joinAlias is the name under which memberlist is asked to join a peer. It reads a
// node name up to the first slash, and ours may contain slashes; a control
// character cannot be part of a peer's own name.
func joinAlias(index int) string { return "\x00" + strconv.Itoa(index) }

// peer is one entry of the list with what is known of its address.
type peer struct {
	Peer
	index int

	// Guarded by table.mu.
	addrs    []netip.AddrPort // the best first; empty: never resolved
	resolved time.Time        // of the last attempt, successful or not
	pending  bool             // waiting for, or with, the resolver goroutine
}

// table maps names to peers and peers to addresses.
type table struct {
	list    []*peer          // sorted by name; never changes
	byName  map[string]*peer // names and join aliases; never changes
	resolve func(ctx context.Context, addr string) ([]netip.AddrPort, error)
	wanted  chan *peer // for the resolver goroutine; has room for every peer once

	mu sync.Mutex // leaf: nothing is called while it is held
}

func newTable(peers []Peer, resolve func(context.Context, string) ([]netip.AddrPort, error)) *table {
	literals := resolve == nil
	if literals {
		resolve = resolveSystem
	}
	t := &table{
		byName:  make(map[string]*peer, 2*len(peers)),
		resolve: resolve,
		wanted:  make(chan *peer, len(peers)),
	}
	for _, p := range peers {
		t.list = append(t.list, &peer{Peer: p})
	}
	slices.SortFunc(t.list, func(a, b *peer) int { return strings.Compare(a.Name, b.Name) })
	for i, p := range t.list {
		p.index = i
		t.byName[p.Name] = p
		t.byName[joinAlias(i)] = p
		if literals {
			if addr, err := netip.ParseAddrPort(p.Addr); err == nil {
				p.addrs = []netip.AddrPort{addr}
				continue
			}
		}
		t.ask(p) // look all names up before the first packets go out
	}
	return t
}

// listed reports whether name is that of a peer; a join alias is not.
func (t *table) listed(name string) bool {
	p, ok := t.byName[name]
	return ok && p.Name == name
}

func (t *table) find(name string) (*peer, error) {
	p, ok := t.byName[name]
	if !ok {
		return nil, fmt.Errorf("%w: %.80q", errNotListed, name)
	}
	return p, nil
}

// packetAddr returns the address to send packets for a name to. It never blocks:
// an old address serves while the resolver goroutine looks for a new one, so that
// a slow name server does not hold up the probes of all other members.
func (t *table) packetAddr(name string) (netip.AddrPort, error) {
	p, err := t.find(name)
	if err != nil {
		return netip.AddrPort{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ttl := addressTTL
	if len(p.addrs) == 0 {
		ttl = unresolvedTTL
	}
	if time.Since(p.resolved) > ttl {
		t.ask(p)
	}
	if len(p.addrs) == 0 {
		return netip.AddrPort{}, fmt.Errorf("%w: %q", errUnresolved, p.Addr)
	}
	return p.addrs[0], nil
}

// ask has the resolver goroutine look a peer up. It never blocks. mu is held, except
// by newTable.
func (t *table) ask(p *peer) {
	if !p.pending {
		p.pending = true
		t.wanted <- p // pending keeps each peer in here at most once
	}
}

// appeared says that a member has just come up: its name may lead elsewhere now,
// or for the first time anywhere.
func (t *table) appeared(name string) {
	p, err := t.find(name)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ask(p)
}

// streamAddrs resolves a name now, since a dial can wait. When that fails the
// addresses found last have to do.
func (t *table) streamAddrs(ctx context.Context, name string) (*peer, []netip.AddrPort, error) {
	p, err := t.find(name)
	if err != nil {
		return nil, nil, err
	}
	err = t.refresh(ctx, p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p.addrs) == 0 {
		return p, nil, err
	}
	return p, slices.Clone(p.addrs), nil
}

// prefer moves the address that answered a dial to the front: of the addresses
// of a host name it is the one that packets should go to as well.
func (t *table) prefer(p *peer, addr netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(p.addrs, addr); i > 0 {
		p.addrs = slices.Insert(slices.Delete(slices.Clone(p.addrs), i, i+1), 0, addr)
	}
}

// refresh looks a peer's host up and keeps what it finds; the address in use stays
// in front as long as it is among them.
func (t *table) refresh(ctx context.Context, p *peer) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := t.resolve(ctx, p.Addr)
	if err == nil && len(found) == 0 {
		err = errors.New("the host has no address")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p.resolved = time.Now()
	if err != nil {
		return fmt.Errorf("gossip: resolve %q: %w", p.Addr, err)
	}
	fresh := slices.Clone(found[:min(len(found), maxAddresses)])
	if len(p.addrs) > 0 {
		if i := slices.Index(fresh, p.addrs[0]); i > 0 {
			fresh[0], fresh[i] = fresh[i], fresh[0]
		}
	}
	p.addrs = fresh
	return nil
}

// run resolves what packetAddr asks for until ctx ends.
func (t *table) run(ctx context.Context) {
	for {
		select {
		case p := <-t.wanted:
			// A failure shows in the next packet to this peer; there is nobody to
			// tell it to here.
			_ = t.refresh(ctx, p)
			t.mu.Lock()
			p.pending = false
			t.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// resolveSystem asks the system's resolver. IPv4 comes first: a socket bound to
// an IPv4 address cannot send anywhere else, while a dual-stack one can send to both.
func resolveSystem(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(port))}, nil // LookupPort returns 0 to 65535
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.AddrPort
	for _, ip := range ips {
		to := netip.AddrPortFrom(ip.Unmap(), uint16(port))
		if to.Addr().Is4() {
			v4 = append(v4, to)
		} else {
			v6 = append(v6, to)
		}
	}
	return append(v4, v6...), nil
}
