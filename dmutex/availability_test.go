package dmutex

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treequorum/dmutex/quorum"
)

// lockWith reports how long a lock takes, once quarantines are over, when only these
// of seven members are up; false when it is not had within limit.
func lockWith(t *testing.T, up quorum.Set, limit time.Duration, change func(*Config)) (took time.Duration, had bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		client := w.start("client", func(c *Config) {
			change(c)
			c.Client = true
		})
		for i := range up.All() {
			w.start(w.peers[i].Name, change)
		}
		time.Sleep(10 * time.Second)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		lease, err := client.Mutex("x").Lock(ctx)
		took, had = time.Since(begin), err == nil
		if had {
			mustUnlock(t, lease)
		}
	})
	return took, had
}

// sets calls f with every set of seven members.
func sets(f func(up quorum.Set)) {
	for bits := range 1 << 7 {
		var up quorum.Set
		for i := range 7 {
			if bits>>i&1 == 1 {
				up = up.With(i)
			}
		}
		f(up)
	}
}

// The exam of availability: with TreeOnly a lock can be had exactly when the live
// members contain a quorum of the tree. More would be unsafe, less unavailable.
func TestTreeOnlyLocksExactlyWithATreeQuorum(t *testing.T) {
	tree, err := quorum.New(7, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	sets(func(up quorum.Set) {
		_, had := lockWith(t, up, 10*time.Second, func(c *Config) { c.DisableRotation, c.TreeOnly = true, true })
		if want := tree.Contains(up); had != want {
			t.Errorf("members %v up: lock had %v, want %v", up, had, want)
		}
		if had {
			count++
		}
	})
	if count != 64 {
		t.Errorf("had with %d of 128 sets, want the 64 that contain a quorum of the tree", count)
	}
}

// With votes any majority is enough, whether it contains a quorum of the tree or not,
// and has the lock within 3T; fewer never have it.
func TestAnyMajorityLocksWithin3T(t *testing.T) {
	const limit = 3 * 3 * time.Second
	slowest, by := time.Duration(0), ""
	sets(func(up quorum.Set) {
		took, had := lockWith(t, up, limit, plain)
		if want := up.Len() >= 4; had != want {
			t.Errorf("members %v up: lock had %v within 3T, want %v", up, had, want)
		}
		if had && took > slowest {
			slowest, by = took, fmt.Sprint(up)
		}
	})
	t.Logf("slowest %v, with %s up", slowest, by)
}
