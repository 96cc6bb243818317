// Package gossip tells which members of a cluster seem to be up. It wraps
// hashicorp/memberlist and is the only package that knows it.
//
// What it reports is a hint and nothing else: it steers which quorum a requester
// asks first. No lock is granted, kept or taken away because of it. Everything here
// may therefore be late, wrong or lost without harm to exclusion.
//
// # Names, not addresses
//
// Members are known by name. The configured list of peers says where a name
// lives; host names on it are resolved again all the time, so a member may
// move. A name that is not on the list is never dialed, never sent a packet and
// never becomes a member.
//
// memberlist itself gossips IP addresses and takes a changed address for a
// conflict between two nodes. So every node advertises one and the same
// placeholder (an address reserved for documentation), and the transport of
// this package looks up the name instead. A member that comes back at another
// address is then nothing special.
//
// # The shared port
//
// Gossip shares one TCP and UDP port with the lock connections. The owner of the
// port accepts connections, recognizes gossip by its first byte (0 to 13, or 244
// in front of the cluster's label) and passes it on through [Config].Conns. From
// then on this package owns the connection. Packets are read from
// [Config].Packets here, but the socket is closed by its owner.
//
// # Goroutines
//
// One reads packets, one takes over inbound connections, one resolves host
// names, one joins peers that are not in the view, one calls [Events]. The rest
// belongs to memberlist. All have ended when [Gossip.Close] returns nil, or are
// about to within a few milliseconds.
package gossip
