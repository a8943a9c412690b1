package crash

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// hostileTimeout is the server's patience with a connection that says nothing.
	hostileTimeout = 3 * time.Second
	// hostileMemory is how much a server may grow under attack.
	hostileMemory = 256 << 20
)

// TestHostileClients opens thousands of connections that say nothing, or lie
// about how much they will say, while honest clients work.
func TestHostileClients(t *testing.T) {
	seed, rng := hurtful(t)
	attackers := times(0, 3000, 9000)
	o := trio(seed, 1000)
	o.Servers, o.Pulses = 1, true
	o.Config = map[string]string{"nio.sessionlessCnxnTimeout": fmt.Sprint(hostileTimeout.Milliseconds())}
	r := Begin(t, o)
	r.WaitAnswered(100)
	s := r.Servers[0]
	before := memory(t, s)
	fault := time.Now()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		kept int
	)
	for range attackers {
		attack := attacks[rng.IntN(len(attacks))](rng)
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatalf("connection refused: %v; the server must turn away clients, not the machine", err)
		}
		wg.Go(func() {
			defer c.Close()
			c.Write(attack)
			c.SetReadDeadline(time.Now().Add(hostileTimeout + healPatience))
			for b := make([]byte, 512); err == nil; {
				_, err = c.Read(b)
			}
			if isTimeout(err) {
				mu.Lock()
				kept++
				mu.Unlock()
			}
		})
	}
	grown := memory(t, s) - before
	wg.Wait()
	t.Logf("%d hostile connections; the server grew by %d MiB; the longest honest write took %v", attackers, grown>>20,
		r.Pulses[0].Longest(fault, time.Now()).Round(time.Millisecond))
	if kept > 0 {
		t.Errorf("%d hostile connections were kept for longer than %v", kept, hostileTimeout+healPatience)
	}
	if grown > hostileMemory {
		t.Errorf("the server grew by %d MiB under attack; at most %d are allowed", grown>>20, hostileMemory>>20)
	}
	r.undisturbed()
	r.Verdict()
}

// attacks are what hostile connections say first.
var attacks = []func(*rand.Rand) []byte{
	func(*rand.Rand) []byte { return nil },
	func(*rand.Rand) []byte { return []byte{0} },
	func(*rand.Rand) []byte { return []byte{0, 0, 0, 45, 0, 0} }, // a connect request that never comes
	func(*rand.Rand) []byte { return []byte{0x7f, 0xff, 0xff, 0xff} },
	func(*rand.Rand) []byte { return []byte{0xff, 0xff, 0xff, 0xff} },
	func(*rand.Rand) []byte { return []byte("GET / HTTP/1.1\r\n\r\n") },
	func(rng *rand.Rand) []byte { // noise
		b := make([]byte, 4+rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	},
	func(*rand.Rand) []byte { return append(hello(), 0x3f, 0xff, 0xff, 0xff) }, // a session, then a bomb
	// a session that stops inside a frame
	func(*rand.Rand) []byte { return append(hello(), 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0) },
	func(*rand.Rand) []byte { // a session, then a multi of a billion operations
		return append(hello(), 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 14, 0x3b, 0x9a, 0xca, 0, 0, 0, 0, 0)
	},
}

// hello asks for a session with the shortest timeout.
func hello() []byte {
	q := jute.ConnectRequest{Timeout: 1, Passwd: make([]byte, jute.PasswdSize)}
	return jute.AppendFrame(nil, q.Append)
}

// memory is the resident memory of a server, in bytes.
func memory(t *testing.T, s *Server) int64 {
	t.Helper()
	n := s.Memory()
	if n == 0 {
		t.Skip("this machine doesn't tell a process's resident memory")
	}
	return n
}
