// Command dmutexsim runs simulated clusters by the seed and judges them; see its
// --help.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/treequorum/dmutex/cmd/internal/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := sim.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
