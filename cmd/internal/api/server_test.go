package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestForeignRequestsAreRefused(t *testing.T) {
	tests := []struct {
		headers string
		want    int
	}{
		{"Host: 127.0.0.1:7980", 200},
		{"Host: localhost:7980", 200},
		{"Host: LOCALHOST", 200},
		{"Host: [::1]:7980", 200},
		{"Host: 127.9.9.9", 200},
		{"Host: example.com", 403},
		{"Host: example.com:7980", 403},
		{"Host: localhost.example.com:7980", 403},
		{"Host: 192.0.2.1:7980", 403},
		{"Host: 0.0.0.0:7980", 403},
		{"Host: ", 403},
		{"Host: 127.0.0.1:7980\r\nOrigin: http://example.com", 403},
		{"Host: 127.0.0.1:7980\r\nOrigin: http://127.0.0.1:7980", 403},
		{"Host: 127.0.0.1:7980\r\nOrigin: null", 403},
		{"Host: 127.0.0.1:7980\r\nSec-Fetch-Site: cross-site", 403},
		{"Host: 127.0.0.1:7980\r\nSec-Fetch-Site: same-site", 403},
		{"Host: 127.0.0.1:7980\r\nSec-Fetch-Site: same-origin", 200},
		{"Host: 127.0.0.1:7980\r\nSec-Fetch-Site: none", 200},
	}
	inWorld(t, 0, func(t *testing.T, w *world) {
		for _, test := range tests {
			for _, path := range []string{"GET /healthz", "GET /v1/status"} {
				status, body := w.raw(path + " HTTP/1.1\r\n" + test.headers + "\r\nConnection: close\r\n\r\n")
				if status != test.want {
					t.Errorf("%s with %q: status %d %s, want %d", path, test.headers, status, body, test.want)
				}
			}
		}
		status, _ := w.raw(post("nightly", "{}", "Origin: http://example.com"))
		if status != 403 || len(w.node.calls) != 0 {
			t.Errorf("a page's request for a lock: status %d, %d calls of the node", status, len(w.node.calls))
		}
	})
}

func TestWrongRequestsAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxRequestLine)
	tests := []struct {
		name, request string
		want          int
	}{
		{"empty body", post("nightly", ""), 400},
		{"no JSON", post("nightly", "hello\n"), 400},
		{"cut off", post("nightly", `{"try":`), 400},
		{"array", post("nightly", `[]`), 400},
		{"unknown field", post("nightly", `{"tyr":true}`), 400},
		{"wrong type", post("nightly", `{"wait_ms":"1s"}`), 400},
		{"not a whole number", post("nightly", `{"wait_ms":1.5}`), 400},
		{"two objects on a line", post("nightly", `{}{}`), 400},
		{"negative wait", post("nightly", `{"wait_ms":-1}`), 400},
		{"try and wait", post("nightly", `{"wait_ms":1,"try":true}`), 400},
		{"negative pid", post("nightly", `{"pid":-1}`), 400},
		{"long line", post("nightly", `{"label":"`+long+`"}`), 413},
		{"endless line", post("nightly", strings.Repeat(long, 100)), 413},
		{"large header", post("nightly", "{}", "X-Filler: "+strings.Repeat("x", 4*maxHeaderBytes)), 431},
		{"another method", "PUT /v1/locks/nightly HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405},
		{"no name", post("", "{}"), 404},
		{"two segments", post("a/b", "{}"), 404},
		{"another path", "GET /v2/locks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
	}
	inWorld(t, 0, func(t *testing.T, w *world) {
		for _, test := range tests {
			if status, body := w.raw(test.request); status != test.want {
				t.Errorf("%s: status %d %s, want %d", test.name, status, body, test.want)
			}
		}
		if len(w.node.calls) != 0 {
			t.Errorf("%d wrong requests reached the node", len(w.node.calls))
		}
	})
}

func TestSilentCallersAreCutOff(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		began := w.clock()
		request := "POST /v1/locks/nightly HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
		if status, body := w.raw(request); status != 408 || w.clock()-began != helloTimeout {
			t.Errorf("a request without its first line: status %d %s after %v, want 408 after %v", status, body, w.clock()-began, helloTimeout)
		}
		conn, err := w.listener.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		began = w.clock()
		if _, err = conn.Read(make([]byte, 1)); err == nil || w.clock()-began != headerTimeout {
			t.Errorf("a connection without a header ended with %v after %v, want after %v", err, w.clock()-began, headerTimeout)
		}
	})
}

func TestHoldsAreLimited(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		first, _ := w.held(watched())
		second := w.ask("b", watched()) // waiting counts too
		<-w.node.calls
		_, err := w.client.Lock(t.Context(), "c", watched())
		var failure *Error
		if !errors.As(err, &failure) || failure.Code != CodeOverloaded {
			t.Fatalf("the third of two holds: %v, want code %q", err, CodeOverloaded)
		}
		if err := first.hold.Release(); err != nil {
			t.Fatal(err)
		}
		first.await(KindReleased)
		synctest.Wait()
		third := w.ask("c", watched())
		<-w.node.calls
		second.hold.Close()
		third.hold.Close()
	})
}

// Every name that a lock may have reaches the node as it is.
func TestNamesSurviveTheURL(t *testing.T) {
	names := []string{
		"nightly", "dns/example.com", "/", "//", "a//b", ".", "..", "../x", "a b", "a?b=c", "a#b", "a%2Fb", "%", "ü/日本",
		"{name}", "a+b", "a;b", strings.Repeat("é", 127),
	}
	inWorld(t, 0, func(t *testing.T, w *world) {
		for _, name := range names {
			c := w.ask(name, watched())
			call := <-w.node.calls
			if call.name != name {
				t.Errorf("%q reached the node as %q", name, call.name)
			}
			call.answer <- outcome{err: &Error{Code: CodeBusy}}
			c.want(KindFailed)
		}
	})
}

// A program without this client may send its wish in one go, and name a living
// process instead of sending pings.
func TestPlainRequestIsServed(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		conn, err := w.listener.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		request := post("nightly", `{"pid":100,"pid_start":1,"boot_id":"`+testBoot+`"}`)
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		go func() { // read what comes
			buffer := make([]byte, 1024)
			for {
				if _, err := conn.Read(buffer); err != nil {
					return
				}
			}
		}()
		lease := newFakeLease(w.clock() + testTTL)
		stop := w.renewing(lease)
		defer stop()
		(<-w.node.calls).answer <- outcome{lease: lease}
		w.sleep(5 * testTTL)
		if lease.isUnlocked() {
			t.Fatal("unlocked though the caller lives and is connected")
		}
		_ = conn.Close()
		w.processes.kill(100)
		w.sleep(2*watchEvery + time.Millisecond)
		if !lease.isUnlocked() {
			t.Fatal("still locked after the caller died")
		}
	})
}

func TestStatusAndHealth(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		get := func(path string) (int, map[string]any) {
			status, body := w.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			var v map[string]any
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				t.Fatalf("GET %s: %v in %q", path, err, body)
			}
			return status, v
		}
		if status, v := get("/readyz"); status != 200 || v["status"] != "ready" {
			t.Errorf("ready: %d %v", status, v)
		}
		w.node.notReady = errors.New("peers have a different configuration")
		if status, v := get("/readyz"); status != 503 || v["reason"] != "peers have a different configuration" {
			t.Errorf("not ready: %d %v, want 503 and the reason", status, v)
		}
		if status, v := get("/healthz"); status != 200 || v["status"] != "ok" {
			t.Errorf("health: %d %v", status, v)
		}
		status, v := get("/v1/status")
		if status != 200 || v["name"] != "a" || v["ready"] != false || v["reason"] == "" || v["stats"] == nil || v["members"] == nil {
			t.Errorf("status: %d %v", status, v)
		}
	})
}

func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipeListener()
		listener := limitConns(pipes, 1)
		accepted := make(chan net.Conn)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		dial := func() net.Conn {
			conn, err := pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		dial()
		first := <-accepted
		second := dial()
		if _, err := second.Read(make([]byte, 1)); err == nil {
			t.Error("a connection over the limit was not closed")
		}
		_ = first.Close()
		_ = first.Close() // a second one must not make room twice
		dial()
		third := <-accepted
		fourth := dial()
		if _, err := fourth.Read(make([]byte, 1)); err == nil {
			t.Error("a connection over the limit was not closed after one was closed twice")
		}
		_ = third.Close()
		_ = listener.Close()
	})
}

func TestClientTellsWhoDoesNotAnswer(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.client.http.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, syscall.ECONNREFUSED
		}
		_, err := w.client.Lock(t.Context(), "nightly", Hello{})
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) || unreachable.Addr != "127.0.0.1:7980" || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want an UnreachableError with the address", err)
		}
	})
}

// Who accepts and says nothing is waited for only so long.
func TestClientGivesUpOnASilentListener(t *testing.T) {
	second := int64(1000)
	hour := int64(3600_000)
	for _, test := range []struct {
		name  string
		hello Hello
		want  time.Duration
	}{
		{"for ever", Hello{}, 10 * time.Second},
		{"try", Hello{Try: true}, 5 * time.Second},
		{"a second", Hello{WaitMS: &second}, 6 * time.Second},
		{"an hour", Hello{WaitMS: &hour}, 10 * time.Second},
	} {
		for _, says := range []string{"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n"} {
			t.Run(test.name+says, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					listener := newPipeListener()
					conns := make(chan net.Conn, 1)
					go func() {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						_, _ = io.ReadFull(conn, make([]byte, 60)) // some of the request
						go func() { _, _ = io.Copy(io.Discard, conn) }()
						_, _ = io.WriteString(conn, says)
						conns <- conn
					}()
					client := NewClient("127.0.0.1:1", func() time.Duration { return 0 }, "")
					client.http.Transport.(*http.Transport).DialContext = listener.dial
					began := time.Now()
					_, err := client.Lock(t.Context(), "nightly", test.hello)
					silent, ok := errors.AsType[*UnreachableError](err)
					if took := time.Since(began); !ok || silent.Silent != test.want || took != test.want {
						t.Errorf("got %v after %v, want an UnreachableError after %v", err, took, test.want)
					}
					_ = (<-conns).Close()
				})
			})
		}
	}
}

// Something else on the agent's port must not look like an agent.
func TestClientRefusesAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
		go func() { _ = server.Serve(listener) }()
		client := NewClient("127.0.0.1:1", func() time.Duration { return 0 }, "")
		client.http.Transport.(*http.Transport).DialContext = listener.dial
		_, err := client.Lock(t.Context(), "nightly", Hello{})
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "404") {
			t.Errorf("got %v, want an UnreachableError that quotes the answer", err)
		}
		_ = server.Close()
	})
}

// Which clock a deadline is told on decides how far it can be trusted.
func TestDeadlineOnTheClientsClock(t *testing.T) {
	const now = time.Hour
	second := func(n float64) int64 { return int64(n * float64(time.Second)) }
	base := int64(now)
	tests := []struct {
		name  string
		state State
		want  time.Duration
	}{
		{"the same boot", State{BootID: testBoot, DeadlineNS: base + second(2.5), RemainingNS: second(2.6), Ping: 1}, now + 2500*time.Millisecond},
		{"another boot", State{BootID: "boot-2", DeadlineNS: second(9), RemainingNS: second(2.6), Ping: 1}, now + 2400*time.Millisecond},
		{"another boot, the hello", State{BootID: "boot-2", DeadlineNS: second(9), RemainingNS: second(2.6)}, now + 2100*time.Millisecond},
		{"unknown boot", State{DeadlineNS: base + second(2.5), RemainingNS: second(2.5), Ping: 1}, now + 2300*time.Millisecond},
		{"the same boot, a clock ahead", State{BootID: testBoot, DeadlineNS: base + second(102), RemainingNS: second(2), Ping: 1}, now + 1800*time.Millisecond},
		{"the same boot, a clock behind", State{BootID: testBoot, DeadlineNS: base - second(98), RemainingNS: second(2), Ping: 1}, now + 1800*time.Millisecond},
		{"a ping that was never sent", State{BootID: testBoot, DeadlineNS: base + second(2.5), RemainingNS: second(2.5), Ping: 2}, 0},
	}
	for _, test := range tests {
		client := NewClient("", func() time.Duration { return now }, testBoot)
		h := &Hold{client: client, pings: 1}
		h.sent[0], h.sent[1] = now-500*time.Millisecond, now-200*time.Millisecond
		h.held(test.state)
		if got := h.Deadline(); got != test.want {
			t.Errorf("%s: deadline %v, want %v", test.name, got, test.want)
		}
		h.held(State{BootID: testBoot, DeadlineNS: base + 1, RemainingNS: 1, Ping: 1})
		if got := h.Deadline(); got < test.want {
			t.Errorf("%s: an earlier deadline moved it back to %v", test.name, got)
		}
	}
}
