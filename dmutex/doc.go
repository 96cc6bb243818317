// Package dmutex is a distributed mutex that needs nothing but its own peers.
//
// Every node of a cluster lists the same members. To lock a name, a node asks one
// root-to-leaf path of the members, laid out as a binary tree: log n messages each
// way and one round trip. Members that fail are replaced by the paths below them.
//
//	n, err := dmutex.Start(cfg)
//	defer n.Close(ctx)
//	lease, err := n.Mutex("dns/example.com").Lock(ctx)
//	defer lease.Unlock(ctx)
//
// # What holds
//
//   - At most one node of the cluster holds a lock at a time, through crashes,
//     restarts, pauses, partitions, and lost, late and doubled messages, as long as
//     the rate of every clock stays within [Config].MaxClockDrift of real time and at most
//     one process runs under a node name.
//   - Who holds a lock keeps it for as long as its node lives and reaches a quorum.
//     When it does not, the lease's context ends before anybody else gets the lock.
//   - [Lease.Token] is a fencing token, higher for each lease of a lock.
//   - No waiter is starved. Requests of nodes are served by their timestamps; the
//     callers of one node stand behind one request, first come first served.
//
// # What does not
//
// A lease lock cannot stop a process that has lost its lock without noticing, for
// instance one that was paused between a check and a write. It protects a resource only
// as far as the rates of clocks hold, so let the resource check the token where it
// can.
//
// # Starting and stopping
//
// A member keeps its state in memory. After a start it grants nothing for
// LeaseTTL x (1 + MaxClockDrift), because it cannot know what it granted before; the
// others go on meanwhile. In a cluster that starts as a whole, Lock waits for that
// time.
//
// Several nodes can live in one process. The package starts no process, writes to
// nothing but [Config].Logger and reads no environment.
package dmutex
