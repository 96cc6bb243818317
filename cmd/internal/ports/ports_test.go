package ports

import (
	"net"
	"testing"
)

func TestFree(t *testing.T) {
	const n = 30
	addrs, err := Free(n)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, addr := range addrs {
		if seen[addr] {
			t.Errorf("%s is given twice", addr)
		}
		seen[addr] = true
	}
	if len(seen) != n {
		t.Errorf("%d addresses, want %d", len(seen), n)
	}
}

func TestHoldPortWantsBothPorts(t *testing.T) {
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for _, addr := range []string{stream.Addr().String(), packets.LocalAddr().String()} {
		if release, err := holdPort(addr); err == nil {
			_ = release()
			t.Errorf("%s was had, though somebody listens there", addr)
		}
	}
}
