//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/ports"
)

// ttl is T of the default profile.
const ttl = 3 * time.Second

// bench is where a run keeps its files.
type bench struct {
	dir     string
	program string
	verbose bool
	files   int
}

func (b *bench) file() string {
	b.files++
	return filepath.Join(b.dir, fmt.Sprintf("journal-%d", b.files))
}

// cluster is agents of one cluster, all started by this process.
type cluster struct {
	bench  *bench
	peers  string // as for --peers
	agents []*agent
}

type agent struct {
	name, api string
	member    string // address for the other members
	args      []string
	cmd       *exec.Cmd
	dead      bool
}

// newCluster starts n agents and waits until all are ready.
func newCluster(ctx context.Context, b *bench, n int) (*cluster, error) {
	addrs, err := ports.Free(2 * n)
	if err != nil {
		return nil, err
	}
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("n%d=%s", i+1, addrs[i]))
	}
	c := &cluster{bench: b, peers: strings.Join(peers, ",")}
	for i := range n {
		a := &agent{name: fmt.Sprintf("n%d", i+1), api: addrs[n+i], member: addrs[i]}
		a.args = []string{"agent", "--name", a.name, "--peers", c.peers, "--api", a.api}
		if err := c.start(a); err != nil {
			c.close()
			return nil, err
		}
		c.agents = append(c.agents, a)
	}
	for _, a := range c.agents {
		if err := waitFor(ctx, 15*time.Second, "agent "+a.name+" to be ready", a.ready); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) start(a *agent) error {
	a.cmd = exec.Command(c.bench.program, a.args...) //nolint:noctx // it outlives any one call; close ends it
	if c.bench.verbose {
		a.cmd.Stderr = os.Stderr
	}
	return a.cmd.Start()
}

func (a *agent) ready() bool {
	status, _ := a.get("/readyz")
	return status == http.StatusOK
}

// get returns status and text of a path of the agent's API; 0 when it does not answer.
func (a *agent) get(path string) (int, string) {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + a.api + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// tryAgent runs an agent that is expected to end at once, and returns its exit
// status and what it said.
func (c *cluster) tryAgent(ctx context.Context, args ...string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, c.bench.program, append([]string{"agent"}, args...)...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(text), nil
	}
	return 0, string(text), err
}

func (a *agent) signal(s syscall.Signal) error { return a.cmd.Process.Signal(s) }

// kill ends an agent with SIGKILL and waits for its end.
func (a *agent) kill() error {
	a.dead = true
	if err := a.signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = a.cmd.Wait()
	return nil
}

func (c *cluster) close() {
	for _, a := range c.agents {
		if !a.dead {
			_ = a.signal(syscall.SIGCONT)
			_ = a.kill()
		}
	}
}

// waitFor looks every 10 ms until ok, and fails after limit.
func waitFor(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %v for %s", limit, what))
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lockRun is one `dmutex lock` under way.
type lockRun struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
	status int
	ended  time.Time
}

// lock starts `dmutex lock` at an agent.
func (c *cluster) lock(a *agent, args ...string) (*lockRun, error) {
	r := &lockRun{done: make(chan struct{})}
	r.cmd = exec.Command(c.bench.program, append([]string{"lock", "--api", a.api}, args...)...) //nolint:noctx // the checks end it
	r.cmd.Stderr = &r.stderr
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.done)
		err := r.cmd.Wait()
		r.ended = time.Now()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case errors.As(err, &exit):
			r.status = exit.ExitCode()
		default:
			r.status = -1
		}
	}()
	return r, nil
}

func (r *lockRun) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		_ = r.cmd.Process.Kill()
		return fmt.Errorf("dmutex lock still runs after %v; it says: %s", limit, r.stderr.String())
	}
}
