//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/treequorum/dmutex/cmd/internal/ports"
)

// memoryBound is by how much an agent may grow while strangers knock.
const memoryBound = 16 << 20

// checkStrangers sends one member what no member would send, many times and at the
// same time, while locks go on through all three.
func checkStrangers(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 3)
	if err != nil {
		return err
	}
	defer c.close()
	victim := c.agents[0]
	lockAll := func(when string) error {
		for _, a := range c.agents {
			begin := time.Now()
			run, err := c.lock(a, "busy", "--wait", "10s", "--", "true")
			if err != nil {
				return err
			}
			if err := run.wait(ctx, 15*time.Second); err != nil {
				return err
			}
			r.expect(run.status == 0, "lock through %s %s: exit %d after %.3f s", a.name, when, run.status, time.Since(begin).Seconds())
		}
		return nil
	}
	if err := lockAll("before"); err != nil {
		return err
	}
	before, err := memory(victim.cmd.Process.Pid)
	if err != nil {
		return err
	}
	conns, err := knock(ctx, victim.member)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	if err := lockAll("with strangers at the door"); err != nil {
		return err
	}
	after, err := memory(victim.cmd.Process.Pid)
	if err != nil {
		return err
	}
	r.expect(after-before < memoryBound, "memory grew by %d KiB, bound %d KiB", (after-before)>>10, memoryBound>>10)
	open := 0
	for _, conn := range conns {
		if stillOpen(conn) {
			open++
		}
	}
	r.expect(open == 0, "%d connections, %d still open after the handshake's time", len(conns), open)
	return lockAll("after")
}

// knock opens connections of each hostile kind and leaves them open.
func knock(ctx context.Context, addr string) ([]net.Conn, error) {
	var conns []net.Conn
	var dialer net.Dialer
	for _, first := range hostile() {
		for range 20 {
			conn, err := dialer.DialContext(ctx, "tcp", addr)
			if err != nil {
				return conns, fmt.Errorf("a stranger cannot connect any more: %w", err)
			}
			conns = append(conns, conn)
			if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
				return conns, err
			}
			_, _ = conn.Write(first) // refused is as good
		}
	}
	return conns, nil
}

// hostile returns what strangers send first.
func hostile() [][]byte {
	frame := func(payload []byte) []byte {
		out := append([]byte("DMX\x01"), binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
		return append(out, payload...)
	}
	huge := append([]byte("DMX\x01"), binary.BigEndian.AppendUint32(nil, 100<<20)...)
	return [][]byte{
		{},                                       // half open: says nothing
		[]byte("DMX"),                            // half a preamble
		append(huge, make([]byte, 1<<20)...),     // a frame of 100 MB
		frame([]byte("\xdd\xff\xff\xff\xff")),    // an array of 2^32 items
		frame([]byte("\xdf\xff\xff\xff\xff")),    // a map of 2^32 items
		frame([]byte("\xc6\xff\xff\xff\xff")),    // 4 GiB of bytes
		frame(bytes.Repeat([]byte{0x91}, 60000)), // nesting
		frame([]byte{0xc1}),                      // a byte that msgpack never uses
		bytes.Repeat([]byte("garbage "), 8192),   // no protocol at all
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		append([]byte{9}, bytes.Repeat([]byte{0xff}, 4096)...), // as if it were gossip
	}
}

// stillOpen reports whether the other side has not closed the connection within the
// time for a handshake.
func stillOpen(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(8 * time.Second))
	buf := make([]byte, 4096)
	for {
		if _, err := conn.Read(buf); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// memory returns the resident memory of a process in bytes.
func memory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS in /proc")
}

// checkConfigs starts agents that cannot work, and looks at what they say.
func checkConfigs(ctx context.Context, r *report, b *bench) error {
	c, err := newCluster(ctx, b, 3)
	if err != nil {
		return err
	}
	defer c.close()
	a := c.agents[0]
	for _, try := range []struct {
		what, want string
		args       []string
	}{
		{"a port that is taken", a.member, []string{"--name", "n1", "--peers", c.peers, "--api", "127.0.0.1:0"}},
		{"an API port that is taken", a.api, []string{"--dev", "--api", a.api}},
		{"a list without oneself", "x", []string{"--name", "x", "--peers", c.peers, "--api", "127.0.0.1:0"}},
		{"a name twice", "twice", []string{"--name", "n1", "--peers", c.peers + ",n2=127.0.0.1:1", "--api", "127.0.0.1:0"}},
		{"no peers", "peers", []string{"--name", "n1", "--api", "127.0.0.1:0"}},
		{"an API for everybody", "loopback", []string{"--dev", "--api", "0.0.0.0:0"}},
	} {
		status, said, err := c.tryAgent(ctx, try.args...)
		if err != nil {
			return err
		}
		r.expect(status != 0 && strings.Contains(said, try.want), "%s: exit %d: %s", try.what, status, strings.TrimSpace(said))
	}
	return checkDiffers(ctx, r, c)
}

// checkDiffers adds an agent whose list of peers differs from that of the others.
func checkDiffers(ctx context.Context, r *report, c *cluster) error {
	addrs, err := ports.Free(2)
	if err != nil {
		return err
	}
	odd := &agent{name: "n4", api: addrs[1]}
	odd.args = []string{"agent", "--name", "n4", "--peers", c.peers + ",n4=" + addrs[0], "--api", odd.api}
	if err := c.start(odd); err != nil {
		return err
	}
	c.agents = append(c.agents, odd)
	var said string
	err = waitFor(ctx, 2*ttl, "the odd agent to see that it differs", func() bool {
		status, text := odd.get("/readyz")
		said = text
		return status == 503 && strings.Contains(text, "different configuration")
	})
	if err != nil {
		return err
	}
	r.say("ok   /readyz of an agent with another list: 503, %s", strings.TrimSpace(said))
	for _, a := range []*agent{odd, c.agents[0]} {
		run, err := c.lock(a, "x", "--wait", "10s", "--", "true")
		if err != nil {
			return err
		}
		if err := run.wait(ctx, 15*time.Second); err != nil {
			return err
		}
		ok := run.status == 0
		if a == odd {
			ok = run.status == 69 && strings.Contains(run.stderr.String(), "different configuration")
		}
		r.expect(ok, "lock through %s: exit %d: %s", a.name, run.status, strings.TrimSpace(run.stderr.String()))
	}
	return nil
}
