// Command dmutex runs a member of a lock cluster, runs commands under a lock,
// and shows a cluster at work. See dmutex --help.
package main

import (
	"context"
	"os"

	"github.com/treequorum/dmutex/cmd/internal/cli"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cli.Run(context.Background(), os.Args[1:], streams))
}
