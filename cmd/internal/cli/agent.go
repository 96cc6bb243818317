package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/treequorum/dmutex/cmd/internal/api"
	"github.com/treequorum/dmutex/cmd/internal/runner"
	"github.com/treequorum/dmutex/dmutex"
)

// devName is the only member of a --dev cluster.
const devName = "dev"

func newAgentCommand(streams Streams) *cobra.Command {
	var file string
	var dev bool
	cmd := &cobra.Command{
		Use:   "agent --name NAME --peers LIST",
		Short: "Run one node of the cluster, with an HTTP API for programs on this machine",
		Long: `agent runs one member of the cluster, or with --client a node that only asks, until
SIGINT or SIGTERM. A second signal ends it at once. Members may be started in any
order; after its start a member grants nothing for about T, because it cannot know
what it granted before.

Each flag can also be set by the environment (DMUTEX_ and its name, as in
DMUTEX_MAX_CLOCK_DRIFT) and in the file of --config (TOML, the names of the flags
as keys). Flags win over the environment, and that over the file. A file may be

  name  = "a"
  peers = ["a=10.0.0.1:7946", "b=10.0.0.2:7946", "c=10.0.0.3:7946"]
  ttl   = "3s"
  api   = "127.0.0.1:7980"

The API answers GET /readyz (200 when this node can get locks, else 503 and why),
/healthz (200 while it runs) and /v1/status (what it knows of the members).

When it is told to end while commands run under its locks, it asks "dmutex lock" to
end them, and waits until they are dead. Those that are not, T and half a minute
later, keep their locks until the leases are over.`,
		Example: `  dmutex agent --dev
  dmutex agent --name a --peers a=10.0.0.1:7946,b=10.0.0.2:7946,c=10.0.0.3:7946
  dmutex agent --config /etc/dmutex.toml --log-format json`,
		Args: noMorePeers,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" && !dev {
				file = os.Getenv(envPrefix + "CONFIG")
			}
			if file != "" && dev {
				return usageErrorf("--config is not for --dev, which is a single node without a configuration")
			}
			c, err := readSettings(cmd.Flags(), os.Getenv, file, dev)
			if err == nil {
				err = c.complete(dev)
			}
			if err != nil {
				return usageErrorf("%w", err)
			}
			return runAgent(cmd.Context(), c, streams.Err)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	defineSettings(flags)
	flags.StringVar(&file, "config", "", "file with settings (TOML); also DMUTEX_CONFIG")
	flags.BoolVar(&dev, "dev", false, "a single node without a configuration, for development")
	return cmd
}

// noMorePeers refuses arguments, most of all peers that a space has cut off.
func noMorePeers(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && strings.ContainsAny(args[0], ":=") {
		return usageErrorf("unexpected %q: write the peers in one argument, with commas", args[0])
	}
	return usageArgs(cobra.NoArgs)(cmd, args)
}

// complete fills in what follows from the rest, and checks all.
func (c *agentConfig) complete(dev bool) error {
	if dev {
		c.node.Name = devName
		c.node.Peers = []dmutex.Peer{{Name: devName}}
		c.node.Standalone = true
		return inFlags(c.node.Validate())
	}
	switch {
	case !c.peersSet:
		return errors.New("no peers: list all members with --peers, or start a single node with --dev")
	case c.node.Client && c.node.Name == "":
		return errors.New("a client needs a --name, which no other node of the cluster has")
	case c.node.Client && c.node.Listen != "":
		return errors.New("a client listens on nothing: leave --listen out, or --client")
	}
	if c.node.Name == "" {
		for _, p := range c.node.Peers {
			if p.Addr == c.node.Listen {
				c.node.Name = p.Name
			}
		}
	}
	if c.node.Name == "" {
		return errors.New("say which peer this node is: --name " + anyOf(c.node.Peers))
	}
	return inFlags(c.node.Validate())
}

// anyOf lists the names of some peers as a choice.
func anyOf(peers []dmutex.Peer) string {
	const most = 7
	var names []string
	for _, p := range peers[:min(len(peers), most)] {
		names = append(names, p.Name)
	}
	last := len(names) - 1
	switch {
	case len(peers) > most:
		return strings.Join(names, ", ") + " ..."
	case last < 1:
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// inFlags says what the library advises in the words of this program.
func inFlags(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.NewReplacer(
		"or set Client", "or use --client",
		"unset Client", "leave --client out",
		"Standalone is", "--dev is",
		"Peers lists", "--peers lists",
	).Replace(err.Error()))
}

// runAgent runs a node and its API until ctx ends or a signal comes.
func runAgent(ctx context.Context, c *agentConfig, stderr io.Writer) error {
	runner.SurviveBrokenPipes() // a pager or a head that is gone must not end it
	log := newLogger(c, stderr)
	c.node.Logger = log
	for _, name := range unknownVariables(os.Environ()) {
		log.WithField("variable", name).Warn("the environment has a variable that no setting has; it is ignored")
	}
	listener, err := listenAPI(c.api)
	if err != nil {
		return err
	}
	node, err := dmutex.Start(c.node)
	if err != nil {
		_ = listener.Close()
		return &exitError{status: exitFailure, err: fmt.Errorf("cannot start: %w", err)}
	}
	server := api.NewServer(api.ServerConfig{
		Node: apiNode{node: node, ttl: c.node.LeaseTTL}, TTL: c.node.LeaseTTL,
		Clock: dmutex.BootNow, BootID: runner.BootID(), Processes: runner.Processes{}, Log: log,
	})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.WithFields(logrus.Fields{
		"name": node.Name(), "members": len(c.node.Peers), "client": c.node.Client, "ttl": c.node.LeaseTTL.String(),
		"address": node.Addr(), "api": listener.Addr().String(), "pid": os.Getpid(),
	}).Info("agent started")
	var failure error
	select {
	case <-ctx.Done():
	case sig := <-signals:
		log.WithField("signal", sig.String()).Info("agent is closing; a second signal ends it at once")
	case <-node.Done():
		failure = stopError(node)
	case err := <-served:
		failure = fmt.Errorf("the HTTP API failed: %w", err)
	}
	return closeAgent(context.WithoutCancel(ctx), node, server, c.node.LeaseTTL, signals, failure)
}

// stopError says why a node stopped by itself.
func stopError(node *dmutex.Node) error {
	err := node.Err()
	if errors.Is(err, dmutex.ErrReplaced) {
		err = dmutex.ErrReplaced // that it is closed as well says nothing
	}
	return fmt.Errorf("node %q had to stop: %w", node.Name(), err)
}

// closeAgent ends the API, which waits for those who hold locks, then the node.
// Locks under which processes still run when that takes too long are not released:
// a node that ends without a word keeps them for T.
func closeAgent(ctx context.Context, node *dmutex.Node, server *api.Server, ttl time.Duration, signals <-chan os.Signal, failure error) error {
	const (
		nodeTime  = 5 * time.Second
		holdsTime = 30 * time.Second // beyond T, for those that do not end when they are told to
	)
	done := make(chan error, 1)
	go func() {
		holds, cancel := context.WithTimeout(ctx, ttl+holdsTime)
		defer cancel()
		if err := server.Shutdown(holds); err != nil {
			done <- fmt.Errorf("%w; members keep its locks until their leases are over", err)
			return
		}
		last, cancelLast := context.WithTimeout(ctx, nodeTime)
		defer cancelLast()
		done <- node.Close(last)
	}()
	select {
	case err := <-done:
		failure = errors.Join(failure, err)
	case sig := <-another(signals):
		failure = errors.Join(failure, fmt.Errorf("ended at once by a second signal (%v): members keep its locks for T", sig))
	}
	if failure != nil {
		return &exitError{status: exitFailure, err: failure}
	}
	return nil
}

// another returns a channel that passes a signal on that comes a while after the
// first: who ends a whole group often sends two at one time.
func another(signals <-chan os.Signal) <-chan os.Signal {
	const together = 500 * time.Millisecond
	second := make(chan os.Signal, 1)
	go func() {
		timer := time.NewTimer(together)
		defer timer.Stop()
		for first := true; ; {
			select {
			case sig := <-signals:
				if !first {
					second <- sig
					return
				}
			case <-timer.C:
				first = false
			}
		}
	}()
	return second
}

// listenAPI opens the API's port, on loopback only: whoever reaches it can take
// and break locks.
func listenAPI(addr string) (net.Listener, error) {
	resolved, err := loopbackAddress(addr)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", resolved)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &exitError{status: exitFailure, err: fmt.Errorf(
			"the API address %s is taken, perhaps by another agent: stop it, or choose another address with --api", addr)}
	case err != nil:
		return nil, &exitError{status: exitFailure, err: fmt.Errorf("cannot listen on the API address %s: %w", addr, err)}
	}
	return listener, nil
}

// loopbackAddress reads the value of --api.
func loopbackAddress(addr string) (*net.TCPAddr, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || strings.Contains(addr, "/") {
		return nil, usageErrorf("--api %q: --api is host:port, without http://, like %s", addr, defaultAPI)
	}
	resolved, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, usageErrorf("--api %q: %w; write it as host:port, like %s", addr, err, defaultAPI)
	}
	if host == "" || !resolved.IP.IsLoopback() {
		return nil, usageErrorf("--api %s is no loopback address, like %s: the API lets whoever reaches it take and release locks, "+
			"so it is for this machine only", addr, defaultAPI)
	}
	return resolved, nil
}

func newLogger(c *agentConfig, w io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	log.SetLevel(c.logLevel)
	if c.logFormat == "json" {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	} else {
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "15:04:05.000"})
	}
	return log
}
