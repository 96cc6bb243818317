//go:build race

package explore

// underRace shortens the tests: a search has one goroutine, in which the race detector
// finds nothing and takes ten times as long.
const underRace = true
