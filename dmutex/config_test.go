package dmutex

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

func TestValidateSaysWhatToDo(t *testing.T) {
	three := []Peer{{"a", "127.0.0.1:1"}, {"b", "127.0.0.1:2"}, {"c", "127.0.0.1:3"}}
	tests := []struct {
		name   string
		change func(*Config)
		want   string // part of the message; empty: valid
	}{
		{"valid", func(*Config) {}, ""},
		{"client", func(c *Config) { c.Name, c.Client = "x", true }, ""},
		{"no name", func(c *Config) { c.Name = "" }, "node name is empty"},
		{"not on its own list", func(c *Config) { c.Name = "x" }, "add it, or set Client"},
		{"client on the list", func(c *Config) { c.Client = true }, "unset Client"},
		{"twice", func(c *Config) { c.Peers = append(three[:2:2], three[0]) }, `"a" is listed twice`},
		{"no peers", func(c *Config) { c.Peers = nil }, "list every member"},
		{"bad address", func(c *Config) { c.Peers = []Peer{{"a", "here"}} }, "write host:port"},
		{"too short", func(c *Config) { c.LeaseTTL = time.Millisecond }, "choose 200ms to 5m0s"},
		{"too long", func(c *Config) { c.LeaseTTL = time.Hour }, "choose 200ms to 5m0s"},
		{"drift", func(c *Config) { c.MaxClockDrift = 0.3 }, "choose above 0 to 0.2"},
		{"no drift", func(c *Config) { c.MaxClockDrift = 0 }, "choose above 0 to 0.2"},
		{"drift is no number", func(c *Config) { c.MaxClockDrift = math.NaN() }, "choose above 0 to 0.2"},
		{"profile", func(c *Config) { c.Profile = "moon" }, "use local, lan or wan"},
		{"standalone of three", func(c *Config) { c.Standalone = true }, "Standalone is for one member"},
		{"too many", func(c *Config) { c.Peers = make([]Peer, 200) }, "at most 127"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultLANConfig()
			cfg.Name, cfg.Peers = "a", three
			tt.change(&cfg)
			err := cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	cfg := Config{LeaseTTL: -1, MaxClockDrift: -1, Profile: "x"}
	for _, want := range []string{"node name", "cluster name", "lease TTL", "drift", "no peers", "profile"} {
		if err := cfg.Validate(); !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestLockNames(t *testing.T) {
	cfg := DefaultLocalConfig()
	cfg.Name, cfg.Standalone, cfg.Peers = "dev", true, []Peer{{Name: "dev"}}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	for _, name := range []string{"", strings.Repeat("x", 256), "a\xff", "a\nb", "a\x00", "a\x1b[31m", "a\u202eb", "a\u2028", "a\u0085"} {
		if _, err := n.Mutex(name).Lock(t.Context()); !errors.Is(err, ErrInvalidName) {
			t.Errorf("lock of %q: %v, want ErrInvalidName", name, err)
		}
	}
	if _, err := n.Mutex("x", WithLabel("a\nb")).Lock(t.Context()); !errors.Is(err, ErrInvalidName) {
		t.Errorf("label with a line break: %v, want ErrInvalidName", err)
	}
	for _, name := range []string{"x", strings.Repeat("x", 255), "dns/é/😀 with spaces"} {
		lease, err := n.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Errorf("lock of %q: %v, want nil", name, err)
			continue
		}
		mustUnlock(t, lease)
	}
}

func TestStartSaysWhichPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := DefaultLANConfig()
	cfg.Name, cfg.Peers = "a", []Peer{{"a", l.Addr().String()}}
	if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Start on a taken port: %v, want an error that names %v", err, l.Addr())
	}
}

func TestStartDoesNotChangeTheConfig(t *testing.T) {
	cfg := DefaultLocalConfig()
	peers := freePeers(t, 1)
	cfg.Name, cfg.Peers = "n01", peers
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	if cfg.Listen != "" || cfg.Logger != nil || n.Addr() != peers[0].Addr {
		t.Errorf("config %+v, address %s; want the config as it was and %s", cfg, n.Addr(), peers[0].Addr)
	}
}
