// Package ports finds ports on loopback for clusters that a command starts.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the ranges from which systems choose the source
// ports of connections. Inside, a connection could take the port of the process
// that is killed before it is back, even by connecting to itself.
const (
	lowPort   = 10000
	highPort  = 32000
	portTries = 2000
)

// Free finds n addresses on loopback whose TCP and UDP port nobody has. All
// are held until all are found, so they differ; a moment later another process
// may take one nevertheless.
func Free(n int) ([]string, error) {
	var held []func() error
	defer func() {
		for _, release := range held {
			_ = release() // it was only held to be ours
		}
	}()
	var last error
	addrs := make([]string, 0, n)
	for range portTries {
		if len(addrs) == n {
			return addrs, nil
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowPort+rand.IntN(highPort-lowPort)))
		release, err := holdPort(addr)
		if err != nil {
			last = err
			continue
		}
		held = append(held, release)
		addrs = append(addrs, addr)
	}
	return nil, fmt.Errorf("found %d of %d free ports between %d and %d on 127.0.0.1: %w",
		len(addrs), n, lowPort, highPort, last)
}

// holdPort takes both ports of addr.
func holdPort(addr string) (release func() error, err error) {
	stream, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	packets, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return func() error { return errors.Join(stream.Close(), packets.Close()) }, nil
}
