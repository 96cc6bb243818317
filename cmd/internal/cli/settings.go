package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/treequorum/dmutex/dmutex"
)

// defaultAPI is where an agent serves its HTTP API, and where lock looks for it.
const defaultAPI = "127.0.0.1:7980"

// envPrefix begins the name of the environment variable of a setting; the rest
// is the name in upper case with "_" for "-".
const envPrefix = "DMUTEX_"

// agentConfig is what the settings of an agent come to.
type agentConfig struct {
	node      dmutex.Config
	peersSet  bool
	api       string
	logLevel  logrus.Level
	logFormat string
}

// settingKind says how a setting's value is written.
type settingKind int

const (
	kindText   settingKind = iota
	kindList               // repeated or with commas; in a file also an array
	kindSwitch             // true or false
)

// setting is one setting of an agent: flag --name, environment variable
// DMUTEX_NAME, key name in the file.
type setting struct {
	name  string
	kind  settingKind
	usage string
	dev   bool // also for --dev
	set   func(c *agentConfig, values []string) error
}

// agentSettings are all settings, in the order in which they are applied: the
// profile sets defaults for what follows.
func agentSettings() []setting {
	return []setting{
		{"profile", kindText, "timings for members on one machine (local, T=1s), at one site (lan, T=3s) or across sites (wan, T=10s); default lan", true, setProfile},
		{"name", kindText, "name of this node; default: the peer whose address is that of --listen", false, func(c *agentConfig, v []string) error {
			c.node.Name = v[0]
			return nil
		}},
		{"listen", kindText, "address to listen on, TCP and UDP (host:port); default: the address of this node in --peers", false, func(c *agentConfig, v []string) error {
			c.node.Listen = v[0]
			return nil
		}},
		{"peers", kindList, "all members, this node included: name=host:port or host:port, separated by commas or repeated", false, setPeers},
		{"client", kindSwitch, "ask for locks only: not one of the members, listen on nothing", false, setBool(func(c *agentConfig) *bool { return &c.node.Client })},
		{"cluster", kindText, "name of the cluster; default dmutex", false, func(c *agentConfig, v []string) error {
			c.node.Cluster = v[0]
			return nil
		}},
		{"ttl", kindText, "T: how long a silent holder keeps its lock, 200ms to 5m; the same on all nodes; default by profile", true, setTTL},
		{"max-clock-drift", kindText, "how far the rate of any clock may be off, 0 to 0.2; the same on all nodes; default 0.1", false, setDrift},
		{"tree-only", kindSwitch, "no fallback to a majority of members", false, setBool(func(c *agentConfig) *bool { return &c.node.TreeOnly })},
		{"no-rotation", kindSwitch, "the same root for all locks", false, setBool(func(c *agentConfig) *bool { return &c.node.DisableRotation })},
		{"api", kindText, "loopback address of the HTTP API (host:port); default " + defaultAPI, true, func(c *agentConfig, v []string) error {
			c.api = v[0]
			return nil
		}},
		{"log-level", kindText, "error, warn, info or debug; default info", true, setLogLevel},
		{"log-format", kindText, "text or json; default text", true, setLogFormat},
	}
}

func setProfile(c *agentConfig, v []string) error {
	switch p := dmutex.Profile(v[0]); p {
	case dmutex.ProfileLocal:
		c.node = dmutex.DefaultLocalConfig()
	case dmutex.ProfileLAN:
		c.node = dmutex.DefaultLANConfig()
	case dmutex.ProfileWAN:
		c.node = dmutex.DefaultWANConfig()
	default:
		return fmt.Errorf("unknown profile %q: use local, lan or wan", v[0])
	}
	return nil
}

func setPeers(c *agentConfig, v []string) error {
	var list []string
	for _, part := range v {
		for peer := range strings.SplitSeq(part, ",") {
			if peer = strings.TrimSpace(peer); peer != "" {
				list = append(list, peer)
			}
		}
	}
	var err error
	c.node.Peers, err = dmutex.ParsePeers(list)
	c.peersSet = true
	return err
}

func setBool(field func(*agentConfig) *bool) func(*agentConfig, []string) error {
	return func(c *agentConfig, v []string) error {
		switch strings.ToLower(v[0]) {
		case "yes", "on":
			*field(c) = true
		case "no", "off":
			*field(c) = false
		default:
			b, err := strconv.ParseBool(v[0])
			if err != nil {
				return fmt.Errorf("%q is neither: write true or false", v[0])
			}
			*field(c) = b
		}
		return nil
	}
}

func setTTL(c *agentConfig, v []string) error {
	ttl, err := time.ParseDuration(v[0])
	if err != nil {
		return fmt.Errorf("%q is no duration: write it like 3s or 500ms", v[0])
	}
	c.node.LeaseTTL = ttl
	return nil
}

func setDrift(c *agentConfig, v []string) error {
	drift, err := strconv.ParseFloat(v[0], 64)
	if err != nil {
		return fmt.Errorf("%q is no number: write it like 0.1", v[0])
	}
	c.node.MaxClockDrift = drift
	return nil
}

func setLogLevel(c *agentConfig, v []string) error {
	level, err := logrus.ParseLevel(v[0])
	if err != nil {
		return fmt.Errorf("unknown level %q: use error, warn, info or debug", v[0])
	}
	c.logLevel = level
	return nil
}

func setLogFormat(c *agentConfig, v []string) error {
	if v[0] != "text" && v[0] != "json" {
		return fmt.Errorf("unknown format %q: use text or json", v[0])
	}
	c.logFormat = v[0]
	return nil
}

// given is the value of a setting and where it was found, for messages.
type given struct {
	values []string
	source string
}

// defineSettings adds a flag for each setting.
func defineSettings(flags *pflag.FlagSet) {
	for _, s := range agentSettings() {
		switch s.kind {
		case kindText:
			flags.String(s.name, "", s.usage)
		case kindList:
			flags.StringArray(s.name, nil, s.usage)
		case kindSwitch:
			flags.VarPF(new(switchText), s.name, "", s.usage).NoOptDefVal = "true"
		}
	}
}

// switchText keeps the value of a switch as it was written, to be read like one of
// the environment.
type switchText string

// String implements pflag.Value.
func (s *switchText) String() string { return string(*s) }

// Set implements pflag.Value.
func (s *switchText) Set(text string) error {
	*s = switchText(text)
	return nil
}

// Type implements pflag.Value.
func (s *switchText) Type() string { return "" }

// readSettings merges the file, the environment and the flags; the latter win.
// With dev only what is meant for --dev is taken, and other flags are an error.
func readSettings(flags *pflag.FlagSet, getenv func(string) string, file string, dev bool) (*agentConfig, error) {
	fromFile, err := readFile(file)
	if err != nil {
		return nil, err
	}
	c := &agentConfig{node: dmutex.DefaultLANConfig(), api: defaultAPI, logLevel: logrus.InfoLevel, logFormat: "text"}
	var errs []error
	for _, s := range agentSettings() {
		value, ok, err := lookUp(s, flags, getenv, fromFile)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !ok:
		case dev && !s.dev && strings.HasPrefix(value.source, "--"):
			errs = append(errs, fmt.Errorf("%s is not for --dev, which is a single node without a configuration", value.source))
		case dev && !s.dev:
		default:
			if err := s.set(c, value.values); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", value.source, err))
			}
		}
	}
	return c, errors.Join(errs...)
}

// lookUp finds the value of one setting.
func lookUp(s setting, flags *pflag.FlagSet, getenv func(string) string, fromFile map[string]given) (given, bool, error) {
	if flags.Changed(s.name) {
		source := "--" + s.name
		if s.kind != kindList {
			return given{[]string{flags.Lookup(s.name).Value.String()}, source}, true, nil
		}
		values, err := flags.GetStringArray(s.name)
		return given{values, source}, true, err
	}
	env := variableOf(s.name)
	if text := getenv(env); text != "" {
		return given{[]string{text}, env}, true, nil
	}
	value, ok := fromFile[s.name]
	return value, ok, nil
}

// variableOf returns the environment variable of a setting.
func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// unknownVariables returns the variables that look like settings and are none:
// typing errors that nobody would notice.
func unknownVariables(environ []string) []string {
	known := []string{envPrefix + "CONFIG", envPrefix + "LOCK", envPrefix + "TOKEN"}
	for _, s := range agentSettings() {
		known = append(known, variableOf(s.name))
	}
	var unknown []string
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// maxFileBytes bounds a configuration file: a longer one is something else.
const maxFileBytes = 1 << 20

// readFile reads the settings of a TOML file. A key that is no setting is an
// error: it would be a typing error that nobody notices.
func readFile(path string) (map[string]given, error) {
	if path == "" {
		return map[string]given{}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	case len(text) > maxFileBytes:
		return nil, fmt.Errorf("configuration %s is longer than %d bytes: is it the right file?", path, maxFileBytes)
	}
	var raw map[string]any
	if err := toml.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	known := agentSettings()
	settings := make(map[string]given, len(raw))
	var errs []error
	for key, v := range raw {
		source := fmt.Sprintf("%s: %s", path, key)
		if !slices.ContainsFunc(known, func(s setting) bool { return s.name == key }) {
			errs = append(errs, fmt.Errorf("%s: no such setting; the names are those of the flags of dmutex agent", source))
			continue
		}
		values, err := textsOf(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
			continue
		}
		settings[key] = given{values, source}
	}
	return settings, errors.Join(errs...)
}

// textsOf returns a value of a TOML file as a flag would have it.
func textsOf(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case bool, int64, float64:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		var texts []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("%v is no string", item)
			}
			texts = append(texts, text)
		}
		return texts, nil
	}
	return nil, fmt.Errorf("%v is no string, number, true, false or array of strings", v)
}
