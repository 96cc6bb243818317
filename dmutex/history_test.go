package dmutex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/treequorum/dmutex/transport"
)

// lockInput is an operation on one lock; lockOutput what it returned.
type (
	lockInput  struct{ unlock bool }
	lockOutput struct{ token uint64 }
)

// lockState is the lock as a single object: who has it, and the highest token.
type lockState struct {
	held  bool
	token uint64
}

// lockModel is a lock with tokens: it is locked only when free, and each time with a
// higher token.
func lockModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(lockState), input.(lockInput), output.(lockOutput)
			if in.unlock {
				return s.held && out.token == s.token, lockState{token: s.token}
			}
			return !s.held && out.token > s.token, lockState{held: true, token: out.token}
		},
	}
}

// history records operations with the times between which they took effect.
type history struct {
	mu    sync.Mutex
	epoch time.Time
	ops   []porcupine.Operation
}

func (h *history) add(client int, in lockInput, out lockOutput, call time.Time) {
	back := time.Since(h.epoch)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: int64(call.Sub(h.epoch)), Return: int64(back),
	})
}

// work locks and unlocks a lock, and records it.
func (h *history) work(t *testing.T, client int, n *Node, rounds int) {
	for range rounds {
		call := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		lease, err := n.Mutex("x").Lock(ctx)
		if err != nil {
			t.Errorf("%s: %v", n.Name(), err)
			cancel()
			return
		}
		token, err := lease.Token(ctx)
		cancel()
		if errors.Is(err, ErrLost) {
			continue // without a token nothing was done under it
		}
		if err != nil {
			t.Errorf("%s: token: %v", n.Name(), err)
			return
		}
		h.add(client, lockInput{}, lockOutput{token}, call)
		time.Sleep(time.Duration(client+1) * time.Millisecond)
		call = time.Now()
		err = lease.Unlock(context.Background())
		if errors.Is(err, ErrLost) {
			call = h.epoch // it ended at some time since it was had
		} else if err != nil {
			t.Errorf("%s: unlock: %v", n.Name(), err)
		}
		h.add(client, lockInput{unlock: true}, lockOutput{token}, call)
	}
}

func (h *history) check(t *testing.T) {
	t.Helper()
	if got := porcupine.CheckOperationsTimeout(lockModel(), h.ops, 20*time.Second); got != porcupine.Ok {
		t.Errorf("history of %d operations: %v, want it linearizable as a lock with tokens", len(h.ops), got)
	}
}

// Under loss, doubles, messages that overtake each other and cuts, what callers see
// is one lock.
func TestHistoryIsThatOfOneLock(t *testing.T) {
	var h history
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		w.net = transport.NewNetwork(transport.NetworkConfig{
			Seed: 7, MinDelay: time.Millisecond, MaxDelay: 30 * time.Millisecond, Loss: 0.05, Duplicate: 0.1, Reorder: true,
		})
		w.startAll()
		defer w.close()
		h.epoch = time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { h.work(t, i, w.node(i%5+1), 15) })
		}
		for i := range 5 {
			time.Sleep(2 * time.Second)
			w.net.Isolate(w.peers[i].Name, true)
			time.Sleep(2 * time.Second)
			w.net.Isolate(w.peers[i].Name, false)
		}
		wg.Wait()
	})
	if len(h.ops) < 200 {
		t.Errorf("%d operations, want at least 200", len(h.ops))
	}
	h.check(t)
}

// The same over real TCP.
func TestHistoryOverTCPIsThatOfOneLock(t *testing.T) {
	nodes := startTCP(t, 3)
	defer closeAll(t, nodes)
	h := history{epoch: time.Now()}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { h.work(t, i, nodes[i%3], 30) })
	}
	wg.Wait()
	h.check(t)
}

func TestLockModelCanFail(t *testing.T) {
	op := func(client int, unlock bool, token uint64, call, back int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: lockInput{unlock}, Output: lockOutput{token}, Call: call, Return: back}
	}
	for _, c := range []struct {
		name string
		ops  []porcupine.Operation
		want porcupine.CheckResult
	}{
		{"one after the other", []porcupine.Operation{op(0, false, 1, 0, 10), op(0, true, 1, 20, 30), op(1, false, 2, 5, 40)}, porcupine.Ok},
		{"two holders", []porcupine.Operation{op(0, false, 1, 0, 10), op(0, true, 1, 50, 60), op(1, false, 2, 5, 40)}, porcupine.Illegal},
		{"a token that falls", []porcupine.Operation{op(0, false, 3, 0, 10), op(0, true, 3, 20, 30), op(1, false, 2, 35, 40)}, porcupine.Illegal},
		{"unlock by another", []porcupine.Operation{op(0, false, 3, 0, 10), op(1, true, 2, 20, 30)}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperations(lockModel(), c.ops); got != (c.want == porcupine.Ok) {
			t.Errorf("%s: linearizable %v, want %v", c.name, got, c.want)
		}
	}
}
