package server

import (
	"fmt"
	"net"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

// TestMoveClients moves a client port to another one, to all interfaces at the same one, and back, where the old
// listener is in the way of the new one, and to addresses where nobody can listen: then the old one stays.
func TestMoveClients(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 2)
	at := func(host string, port int) string { return fmt.Sprintf("%s:%d", host, port) }
	here := at("127.0.0.1", ports[0])
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	serves := func(addr string) {
		t.Helper()
		fresh := connect(t, addr, 0, nil)
		if h, _ := fresh.call(jute.OpExists, reading("/", false)); h.Err != jute.OK {
			t.Errorf("at %s: %v", addr, h.Err)
		}
		fresh.conn.Close()
		if h, _ := c.call(jute.OpExists, reading("/", false)); h.Err != jute.OK {
			t.Errorf("the first connection: %v", h.Err)
		}
	}
	for _, step := range []struct {
		to      string
		fails   bool
		listens string
	}{
		{here, false, here},
		{"", false, here},
		{at("127.0.0.1", 0), false, here},
		{at("127.0.0.1", ports[1]), false, at("127.0.0.1", ports[1])},
		{at("0.0.0.0", ports[1]), false, at("[::]", ports[1])},
		{at("", ports[1]), false, at("[::]", ports[1])},
		{at("127.0.0.1", ports[1]), false, at("127.0.0.1", ports[1])},
		{at("192.0.2.1", ports[1]), true, at("127.0.0.1", ports[1])},
		{at("192.0.2.1", ports[0]), true, at("127.0.0.1", ports[1])},
		{here, false, here},
	} {
		err := s.clientPorts.move(step.to, false)
		if (err != nil) != step.fails {
			t.Fatalf("to %s: %v", step.to, err)
		}
		addrs := s.Addrs()
		if len(addrs) != 1 || portOf(addrs[0].String()) != portOf(step.listens) || !isAt(s.ports[0], step.listens) {
			t.Fatalf("to %s: it listens at %v, want %s", step.to, addrs, step.listens)
		}
		serves(at("127.0.0.1", addrs[0].(*net.TCPAddr).Port))
	}
	if err := s.clientPorts.move(at("127.0.0.1", ports[1]), true); err != nil || len(s.Addrs()) != 1 {
		t.Errorf("a port for TLS on a server without: %v, %v", err, s.Addrs())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.clientPorts.move(at("127.0.0.1", ports[1]), false); err != nil {
		t.Error(err)
	}
	if nc, err := net.Dial("tcp", at("127.0.0.1", ports[1])); err == nil {
		nc.Close()
		t.Error("a closed server listens")
	}
}
