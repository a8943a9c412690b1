package zk_test

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// A nameServer answers DNS queries on loopback: the SRV records of one name, and 127.0.0.1 for each host.
type nameServer struct {
	conn net.PacketConn
	name string

	mu    sync.Mutex
	port  int // of the only server; 0 for no such name
	asked int
}

const (
	dnsTypeA   = 1
	dnsTypeSRV = 33
)

func startNameServer(t *testing.T, name string, port int) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{conn: conn, name: name, port: port}
	go s.serve()
	return s
}

func (s *nameServer) set(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port = port
}

// resolver returns Go's resolver, which only asks s.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	b := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return
		}
		if n > 12 {
			s.conn.WriteTo(s.answer(b[:n]), from)
		}
	}
}

// answer returns the reply to a query with one question (RFC 1035, section 4; RFC 2782 for SRV).
func (s *nameServer) answer(query []byte) []byte {
	var name strings.Builder
	at := 12
	for query[at] != 0 {
		end := at + 1 + int(query[at])
		name.Write(query[at+1 : end])
		name.WriteByte('.')
		at = end
	}
	end := at + 5 // zero, type, class
	kind := binary.BigEndian.Uint16(query[at+1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	var data []byte
	switch {
	case kind == dnsTypeSRV && name.String() == s.name+"." && s.port != 0:
		s.asked++
		data = binary.BigEndian.AppendUint16(data, 1) // priority
		data = binary.BigEndian.AppendUint16(data, 1) // weight
		data = binary.BigEndian.AppendUint16(data, uint16(s.port))
		data = append(data, "\x03zk1\x07example\x03com\x00"...)
	case kind == dnsTypeA && name.String() == "zk1.example.com.":
		data = []byte{127, 0, 0, 1}
	}
	out := append([]byte(nil), query[:end]...)
	copy(out[4:12], make([]byte, 8))
	out[2], out[3], out[5] = 0x85, 0x80, 1 // an authoritative answer to one question
	if data == nil {
		if kind == dnsTypeSRV || !strings.HasPrefix(name.String(), "zk1.") {
			out[3] |= 3 // no such name
		}
		return out
	}
	out[7] = 1                                  // one answer
	out = append(out, 0xc0, 12)                 // the question's name
	out = append(out, query[at+1:end]...)       // its type and class
	out = binary.BigEndian.AppendUint32(out, 0) // a time to live of nothing
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	return append(out, data...)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestSRVByDNS follows a URL's name to one real server and then, after a change of its record, to another one.
func TestSRVByDNS(t *testing.T) {
	t.Parallel()
	first, second := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
	dns := startNameServer(t, "_zookeeper._tcp.example.com", 0)
	connect, opt, err := zk.ParseURL("zk+srv://example.com?session_timeout=20s")
	if err != nil {
		t.Fatal(err)
	}
	opt.Resolver = dns.resolver()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := zk.Open(short, connect, opt); err == nil || !strings.Contains(err.Error(),
		"lookup _zookeeper._tcp.example.com") {
		t.Errorf("error %v of a name that isn't there", err)
	}

	dns.set(portOf(t, first.Connect()))
	c, err := zk.Open(t.Context(), connect, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if server := c.State().Server; server != "zk1.example.com:"+strconv.Itoa(portOf(t, first.Connect())) {
		t.Errorf("connected to %s", server)
	}
	session := c.Session()

	// The other server, of another ensemble, doesn't know the session, so the end of the session shows that the client
	// followed the record.
	dns.set(portOf(t, second.Connect()))
	first.Refuse(0, true)
	first.Cut()
	states := c.States()
	defer states.Close()
	for {
		change, err := states.Next(t.Context())
		if err != nil || change.State.Final() {
			break
		}
	}
	if state := c.State().State; state != zk.StateExpired {
		t.Errorf("session %v is %v", session, state)
	}
	dns.mu.Lock()
	defer dns.mu.Unlock()
	if dns.asked < 2 {
		t.Errorf("DNS was asked %d times", dns.asked)
	}
}
