package demo

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Quantiles are two figures of a latency, in milliseconds. Both are 0 when
// nothing was measured.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// quantiles sorts samples in place.
func quantiles(samples []time.Duration) Quantiles {
	slices.Sort(samples)
	return Quantiles{P50: milliseconds(rank(samples, 50)), P99: milliseconds(rank(samples, 99))}
}

// rank is the nearest-rank percentile of sorted samples: the smallest one that
// at least percent in a hundred do not exceed.
func rank(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := (len(sorted)*percent + 99) / 100
	return sorted[max(i, 1)-1]
}

func milliseconds(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

// round leaves as many decimals as people read.
func round(x float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(x*scale) / scale
}

// acquireTimes are the times from the call of Lock to its return.
func acquireTimes(holds []hold) []time.Duration {
	times := make([]time.Duration, 0, len(holds))
	for _, h := range holds {
		times = append(times, h.Had-h.Call)
	}
	return times
}

// handoverTimes are the times, on the judge's clock, from the acknowledgement of
// one process's leave to the next process's enter. Only those count where the
// next one had called Lock before: else the lock was free in between, because
// nobody wanted it. A holder that died or came late hands nothing over.
func handoverTimes(holds []hold) []time.Duration {
	byEntry := slices.Clone(holds)
	slices.SortStableFunc(byEntry, func(a, b hold) int { return cmp.Compare(a.Entered, b.Entered) })
	times := make([]time.Duration, 0, len(holds))
	for i := 1; i < len(byEntry); i++ {
		before, next := byEntry[i-1], byEntry[i]
		if before.Ending == left && before.Process != next.Process && next.Call < before.Over {
			times = append(times, max(0, next.Entered-before.Over))
		}
	}
	return times
}
