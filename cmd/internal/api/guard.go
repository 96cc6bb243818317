package api

import (
	"net"
	"net/http"
	"strings"
	"sync"
)

// guard refuses what a web page could make a browser send. A page of another
// site sends its Origin; one that points its own name at this machine sends that
// name as Host.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopbackHost(r.Host):
			refuse(w, http.StatusForbidden, &Error{
				Code:    CodeForbidden,
				Message: "this Host is refused; ask for 127.0.0.1, [::1] or localhost",
			})
		case len(r.Header.Values("Origin")) > 0, crossSite(r.Header.Get("Sec-Fetch-Site")):
			refuse(w, http.StatusForbidden, &Error{
				Code:    CodeForbidden,
				Message: "requests of web pages are refused",
			})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func crossSite(fetchSite string) bool {
	return fetchSite != "" && fetchSite != "none" && fetchSite != "same-origin"
}

// loopbackHost reports whether the Host header names this machine.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// limitConns closes connections beyond limit at once: one that waited to be
// accepted would look to its client like an agent that hangs.
func limitConns(listener net.Listener, limit int) net.Listener {
	return &limitedListener{Listener: listener, free: make(chan struct{}, limit)}
}

type limitedListener struct {
	net.Listener

	free chan struct{} // holds one token for each open connection
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &countedConn{Conn: conn, done: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = conn.Close()
		}
	}
}

type countedConn struct {
	net.Conn

	done func()
}

// Close closes the connection and makes room for another.
func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}
