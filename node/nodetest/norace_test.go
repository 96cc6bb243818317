//go:build !race

package nodetest

const underRace = false
