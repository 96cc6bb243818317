//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUnackedTimeout does nothing where the system has no such option: the write
// deadline and keep-alive find a dead peer, only later.
func setUnackedTimeout(*net.TCPConn, time.Duration) {}
