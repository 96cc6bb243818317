//go:build race

package nodetest

// underRace shortens the tests: a run has one goroutine, in which the race detector
// finds nothing and takes ten times as long.
const underRace = true
