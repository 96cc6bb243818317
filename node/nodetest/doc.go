// Package nodetest runs whole clusters of protocol cores in one goroutine, under
// faults, and checks what they promise. One seed decides everything: the size of
// the cluster, its clocks, the network, who asks for what, and which faults come
// when. A seed that fails fails again, with every event at the same place:
//
//	go test ./node/nodetest -run TestSeed -seed=N
//
// # Time
//
// There is one true time, which nobody in the cluster can read. Events happen in
// its order. Each process has a clock that starts anywhere and runs at a rate within
// 1-d to 1+d of true time, and wall clocks that may be days off. Whether two nodes
// hold a lock at one instant is judged at one true instant, each holder by its own
// clock.
//
// # Two phases
//
// In the first phase faults come and only safety is judged. Then all faults stop,
// and liveness is demanded: whoever waits gets the lock or an error within a bound,
// and in the end no member keeps a grant.
//
// # Parts
//
//	options.go         what a seed decides, and Draw, which decides it
//	sim.go             Run: the event loop and the two phases
//	clock.go           clocks
//	events.go          the queue of what is to happen
//	network.go         delay, loss, duplication, reordering, cuts
//	process.go         one process: a core and its driver, paused, stopped, started
//	callers.go         those who lock, hold, give up and unlock
//	faults.go          which faults there are; targets.go: whom they hit
//	heal.go            what stays broken for a while when the faults end
//	aim.go             options for rare trouble
//	check_*.go         one promise each
//	trace.go           what happened, for people
//	result.go          what a run found and counted
package nodetest
