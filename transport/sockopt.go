package transport

import (
	"net"
	"time"
)

// How the kernel looks after a connection. Ten seconds of silence are probed
// three times; data that nobody acknowledges ends the connection after
// unacked, long before TCP itself gives up and, above all, before its
// retransmissions are minutes apart: after a cut has healed, a new connection
// works at once.
const (
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	unacked           = 5 * time.Second
)

// setSocketOptions readies a TCP connection: no delay for small frames,
// keep-alive, and where the system has it the time-out for unacknowledged data. An
// option that cannot be set leaves a connection that works, only slower to notice
// failures, so errors are left alone; the first read shows a broken one.
func setSocketOptions(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	})
	setUnackedTimeout(tcp, unacked)
}
