package nodetest

// The aims change what a seed decides so that one kind of trouble comes often. They
// serve faults of the core that random options meet once in thousands of seeds.

// AimAtTokens has members lose their memory one at a time, with wall clocks that
// may fall behind, while everybody wants a fencing token.
func AimAtTokens(o *Options) {
	o.Aim = "tokens"
	ttl := o.TTL
	o.Members, o.Clients, o.Locks, o.Half = 3+2*(o.Members%2), 1+o.Clients%2, 1, HealAll
	o.Faulty = 60 * ttl
	o.Net = NetOptions{Delay: ttl / 1000, Jitter: ttl / 50, Late: 0.1, MostLate: ttl / 2}
	o.Calls = CallOptions{Slots: 1, Think: ttl / 8, Hold: ttl / 4, Token: 1}
	o.Faults = FaultOptions{
		Every: ttl, Lasts: ttl, Walls: true,
		Kinds: []FaultKind{FaultCrash, FaultReboot, FaultWall, FaultCutTwoWay, FaultIsolate, FaultPause},
	}
}

// AimAtRestarts has members lose their memory and come back at once, clocks at the
// edge of the bound, and holders cut off, while everybody wants one lock.
func AimAtRestarts(o *Options) {
	o.Aim = "restarts"
	ttl := o.TTL
	o.Members, o.Clients, o.Locks, o.Half, o.TreeOnly = 3, 1+o.Clients%3, 1, HealAll, false
	o.Drift, o.Faulty = 200_000, 60*ttl
	o.Net = NetOptions{Delay: ttl / 1000, Jitter: ttl / 1000}
	o.Calls = CallOptions{Slots: 1, Think: ttl / 16, Hold: ttl, LongHold: 0.3}
	o.Faults = FaultOptions{
		Every: ttl / 2, Lasts: ttl / 2, Extreme: true,
		Kinds: []FaultKind{FaultCrash, FaultCrashMany, FaultIsolate, FaultDeaf, FaultSplit, FaultCutTwoWay, FaultRate},
	}
}

// AimAtVotes splits five or seven members so that some of the time a majority has no
// quorum of the tree, and a quorum of the tree no majority.
func AimAtVotes(o *Options) {
	o.Aim = "votes"
	ttl := o.TTL
	o.Members, o.Clients, o.Locks, o.Half, o.TreeOnly = 7, 1+o.Clients%3, 1, HealAll, false
	o.Drift, o.Faulty = 0, 60*ttl // votes count longest
	o.Net = NetOptions{Delay: ttl / 1000, Jitter: ttl / 200}
	o.Calls = CallOptions{Slots: 1, Think: ttl / 64, Hold: ttl / 2, LongHold: 0.1}
	o.Faults = FaultOptions{
		Every: ttl, Lasts: ttl / 2,
		Kinds: []FaultKind{FaultPath, FaultPath, FaultPath, FaultPath, FaultSplit, FaultCrash, FaultPause},
	}
}

// AimAtPauses has holders stand still for about T while others want the lock.
func AimAtPauses(o *Options) {
	o.Aim = "pauses"
	ttl := o.TTL
	o.Members, o.Clients, o.Locks, o.Half = 3, 1+o.Clients%3, 1, HealAll
	o.Faulty = 60 * ttl
	o.Net = NetOptions{Delay: ttl / 1000, Jitter: ttl / 20, Late: 0.2, MostLate: 2 * ttl}
	o.Calls = CallOptions{Slots: 1, Think: ttl / 16, Hold: ttl, LongHold: 0.3}
	o.Faults = FaultOptions{Every: ttl / 4, Lasts: ttl / 2, Extreme: true, Kinds: []FaultKind{FaultPause, FaultSlow}}
}

// AimAtDelays has messages lost, doubled, and late by up to 4 T, in a crowd.
func AimAtDelays(o *Options) {
	o.Aim = "delays"
	ttl := o.TTL
	o.Members, o.Clients, o.Locks = 3+2*(o.Members%2), 1+o.Clients%3, 1
	o.Faulty = 60 * ttl
	o.Net = NetOptions{Delay: ttl / 1000, Jitter: ttl / 20, Loss: 0.1, Duplicate: 0.2, Late: 0.2, MostLate: 4 * ttl}
	o.Calls = CallOptions{Slots: 2, Think: ttl / 64, Hold: ttl / 16, Patience: 0.3, Try: 0.2}
	o.Faults.Extreme = true
}
