package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/treequorum/dmutex/dmutex"
)

// settingsFrom reads settings as the agent command does.
func settingsFrom(t *testing.T, flags []string, env map[string]string, file string, dev bool) (*agentConfig, error) {
	t.Helper()
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	defineSettings(set)
	if err := set.Parse(flags); err != nil {
		t.Fatalf("flags %q: %v", flags, err)
	}
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "dmutex.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readSettings(set, func(key string) string { return env[key] }, path, dev)
}

// Every setting can be given in three ways, and the flag wins over the
// environment, and that over the file.
func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	tests := []struct {
		name            string
		file, env, flag string // three values; file as TOML
		get             func(*agentConfig) any
		want            [4]any // default, file, env, flag
	}{
		{
			"profile", `"local"`, "wan", "lan", func(c *agentConfig) any { return c.node.Profile },
			[4]any{dmutex.ProfileLAN, dmutex.ProfileLocal, dmutex.ProfileWAN, dmutex.ProfileLAN},
		},
		{"name", `"x"`, "y", "z", func(c *agentConfig) any { return c.node.Name }, [4]any{"", "x", "y", "z"}},
		{"listen", `":1"`, ":2", ":3", func(c *agentConfig) any { return c.node.Listen }, [4]any{"", ":1", ":2", ":3"}},
		{"peers", `["a=h:1", "b=h:2"]`, "c=h:3,d=h:4", "e=h:5", func(c *agentConfig) any { return c.node.Peers }, [4]any{
			[]dmutex.Peer(nil),
			[]dmutex.Peer{{Name: "a", Addr: "h:1"}, {Name: "b", Addr: "h:2"}},
			[]dmutex.Peer{{Name: "c", Addr: "h:3"}, {Name: "d", Addr: "h:4"}},
			[]dmutex.Peer{{Name: "e", Addr: "h:5"}},
		}},
		{"client", "true", "false", "true", func(c *agentConfig) any { return c.node.Client }, [4]any{false, true, false, true}},
		{"cluster", `"x"`, "y", "z", func(c *agentConfig) any { return c.node.Cluster }, [4]any{"dmutex", "x", "y", "z"}},
		{
			"ttl", `"1s"`, "2s", "4s", func(c *agentConfig) any { return c.node.LeaseTTL },
			[4]any{3 * time.Second, time.Second, 2 * time.Second, 4 * time.Second},
		},
		{"max-clock-drift", "0.05", "0.06", "0.07", func(c *agentConfig) any { return c.node.MaxClockDrift }, [4]any{0.1, 0.05, 0.06, 0.07}},
		{"tree-only", "true", "false", "true", func(c *agentConfig) any { return c.node.TreeOnly }, [4]any{false, true, false, true}},
		{"no-rotation", "true", "false", "true", func(c *agentConfig) any { return c.node.DisableRotation }, [4]any{false, true, false, true}},
		{
			"api", `"127.0.0.1:1"`, "127.0.0.1:2", "127.0.0.1:3", func(c *agentConfig) any { return c.api },
			[4]any{defaultAPI, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		},
		{
			"log-level", `"error"`, "warn", "debug", func(c *agentConfig) any { return c.logLevel },
			[4]any{logrus.InfoLevel, logrus.ErrorLevel, logrus.WarnLevel, logrus.DebugLevel},
		},
		{"log-format", `"json"`, "text", "json", func(c *agentConfig) any { return c.logFormat }, [4]any{"text", "json", "text", "json"}},
	}
	if len(tests) != len(agentSettings()) {
		t.Errorf("%d settings are tested, there are %d", len(tests), len(agentSettings()))
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := test.name + " = " + test.file + "\n"
			env := map[string]string{envPrefix + strings.ToUpper(strings.ReplaceAll(test.name, "-", "_")): test.env}
			flags := []string{"--" + test.name + "=" + test.flag}
			for i, give := range []func() (*agentConfig, error){
				func() (*agentConfig, error) { return settingsFrom(t, nil, nil, "", false) },
				func() (*agentConfig, error) { return settingsFrom(t, nil, nil, file, false) },
				func() (*agentConfig, error) { return settingsFrom(t, nil, env, file, false) },
				func() (*agentConfig, error) { return settingsFrom(t, flags, env, file, false) },
			} {
				c, err := give()
				if err != nil {
					t.Fatalf("source %d: %v", i, err)
				}
				if got := test.get(c); !reflect.DeepEqual(got, test.want[i]) {
					t.Errorf("source %d: got %v, want %v", i, got, test.want[i])
				}
			}
		})
	}
}

// A profile sets only what nothing else sets.
func TestProfileIsAppliedFirst(t *testing.T) {
	c, err := settingsFrom(t, []string{"--profile", "wan"}, nil, "ttl = \"5s\"\nname = \"a\"\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if c.node.LeaseTTL != 5*time.Second || c.node.Name != "a" || c.node.Profile != dmutex.ProfileWAN {
		t.Errorf("got %+v", c.node)
	}
}

func TestPeersAreListedOrRepeated(t *testing.T) {
	want := []dmutex.Peer{{Name: "a", Addr: "h:1"}, {Name: "h:2", Addr: "h:2"}, {Name: "c", Addr: "h:3"}}
	for _, flags := range [][]string{
		{"--peers", "a=h:1,h:2,c=h:3"},
		{"--peers", "a=h:1", "--peers", "h:2", "--peers", "c=h:3"},
		{"--peers", " a=h:1 , h:2,", "--peers", "c=h:3"},
	} {
		c, err := settingsFrom(t, flags, nil, "", false)
		if err != nil || !reflect.DeepEqual(c.node.Peers, want) {
			t.Errorf("%q: got %v, %v; want %v", flags, c.node.Peers, err, want)
		}
	}
}

func TestWrongSettingsNameTheirSource(t *testing.T) {
	tests := []struct {
		name  string
		flags []string
		env   map[string]string
		file  string
		dev   bool
		want  []string
	}{
		{"flag", []string{"--ttl", "3"}, nil, "", false, []string{"--ttl", "3s"}},
		{"environment", nil, map[string]string{"DMUTEX_MAX_CLOCK_DRIFT": "much"}, "", false, []string{"DMUTEX_MAX_CLOCK_DRIFT", "much"}},
		{"file", nil, nil, "ttl = \"soon\"", false, []string{"dmutex.toml: ttl", "soon"}},
		{
			"all at once",
			[]string{"--ttl", "x"},
			map[string]string{"DMUTEX_LOG_LEVEL": "loud", "DMUTEX_CLIENT": "maybe"},
			"profile = \"moon\"", false,
			[]string{"--ttl", "DMUTEX_LOG_LEVEL", "DMUTEX_CLIENT", "profile"},
		},
		{"unknown key", nil, nil, "peesr = [\"a=h:1\"]", false, []string{"peesr", "no such setting"}},
		{"table", nil, nil, "[peers]\na = \"h:1\"", false, []string{"peers"}},
		{"array of numbers", nil, nil, "peers = [1]", false, []string{"peers", "no string"}},
		{"no TOML", nil, nil, "peers = ", false, []string{"dmutex.toml"}},
		{"bad peer", []string{"--peers", "a=h"}, nil, "", false, []string{"--peers", "a=h"}},
		{"log format", []string{"--log-format", "xml"}, nil, "", false, []string{"--log-format", "json"}},
		{"dev with a cluster", []string{"--peers", "a=h:1"}, nil, "", true, []string{"--peers", "--dev"}},
		{"dev with a name", []string{"--name", "a"}, nil, "", true, []string{"--name", "--dev"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := settingsFrom(t, test.flags, test.env, test.file, test.dev)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not tell %q", err, want)
				}
			}
		})
	}
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	defineSettings(set)
	if _, err := readSettings(set, func(string) string { return "" }, filepath.Join(t.TempDir(), "none.toml"), false); err == nil {
		t.Error("a file that is not there was accepted")
	}
}

func TestSwitchesTakeWords(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "yes": true, "On": true, "1": true, "false": false, "no": false, "off": false, "0": false} {
		for i, give := range []func() (*agentConfig, error){
			func() (*agentConfig, error) {
				return settingsFrom(t, []string{"--tree-only=" + text}, nil, "", false)
			},
			func() (*agentConfig, error) {
				return settingsFrom(t, nil, map[string]string{"DMUTEX_TREE_ONLY": text}, "", false)
			},
		} {
			if c, err := give(); err != nil || c.node.TreeOnly != want {
				t.Errorf("source %d, %q: %v, %v; want %v", i, text, c.node.TreeOnly, err, want)
			}
		}
	}
	if c, err := settingsFrom(t, []string{"--tree-only"}, nil, "", false); err != nil || !c.node.TreeOnly {
		t.Errorf("a switch alone: %v, %v", c.node.TreeOnly, err)
	}
	if _, err := settingsFrom(t, nil, map[string]string{"DMUTEX_TREE_ONLY": "perhaps"}, "", false); err == nil || !strings.Contains(err.Error(), "true or false") {
		t.Errorf("got %v, want advice", err)
	}
}

func TestUnknownVariablesAreNoticed(t *testing.T) {
	got := unknownVariables([]string{
		"PATH=/bin", "DMUTEX_API=x", "DMUTEX_PEERS=x", "DMUTEX_MAX_CLOCK_DRIFT=x", "DMUTEX_CONFIG=x", "DMUTEX_LOCK=x", "DMUTEX_TOKEN=1",
		"DMUTEX_PEER=a", "DMUTEX_=b",
	})
	if want := []string{"DMUTEX_PEER", "DMUTEX_"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilesAreLimited(t *testing.T) {
	file := "name = \"a\"\n" + strings.Repeat("#", maxFileBytes)
	if _, err := settingsFrom(t, nil, nil, file, false); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v for a file over the limit", err)
	}
	if c, err := settingsFrom(t, nil, nil, file[:maxFileBytes], false); err != nil || c.node.Name != "a" {
		t.Errorf("got %v for a file at the limit", err)
	}
}

// A cluster's settings in the environment do not keep --dev from starting.
func TestDevIgnoresTheEnvironmentOfACluster(t *testing.T) {
	env := map[string]string{"DMUTEX_PEERS": "a=h:1,b=h:2", "DMUTEX_NAME": "a", "DMUTEX_CLIENT": "true", "DMUTEX_API": "127.0.0.1:9"}
	c, err := settingsFrom(t, []string{"--ttl", "500ms"}, env, "", true)
	if err == nil {
		err = c.complete(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.node.Name != devName || !c.node.Standalone || len(c.node.Peers) != 1 || c.api != "127.0.0.1:9" || c.node.LeaseTTL != 500*time.Millisecond {
		t.Errorf("got %+v at %s", c.node, c.api)
	}
}

func TestNameFollowsFromTheAddress(t *testing.T) {
	peers := "--peers=a=h:1,b=h:2,h:3"
	tests := []struct {
		flags []string
		name  string
		err   string
	}{
		{[]string{peers, "--listen", "h:2"}, "b", ""},
		{[]string{peers, "--listen", "h:3"}, "h:3", ""},
		{[]string{peers, "--listen", ":7946", "--name", "a"}, "a", ""},
		{[]string{peers, "--name", "a"}, "a", ""},
		{[]string{peers, "--client", "--name", "c"}, "c", ""},
		{[]string{peers, "--listen", ":2"}, "", "--name"},
		{[]string{peers}, "", "--name"},
		{[]string{peers, "--client"}, "", "--name"},
		{[]string{peers, "--name", "x"}, "", `"x" is not on its own list`},
		{[]string{"--name", "a"}, "", "--peers"},
		{[]string{"--name", "a", "--peers", "a=h:1,a=h:2"}, "", "listed twice"},
		{[]string{peers, "--name", "a", "--ttl", "1ms"}, "", "lease TTL"},
	}
	for _, test := range tests {
		c, err := settingsFrom(t, test.flags, nil, "", false)
		if err != nil {
			t.Fatal(err)
		}
		err = c.complete(false)
		switch {
		case test.err == "" && (err != nil || c.node.Name != test.name):
			t.Errorf("%q: name %q, %v; want %q", test.flags, c.node.Name, err, test.name)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: got %v, want an error about %q", test.flags, err, test.err)
		}
	}
}
