// Package freeport reserves ports for servers that a test or a benchmark starts
// later.
//
// A program that listens on port 0, closes the listener and hands on the port's
// number can't rely on it: until the server listens, and whenever it restarts,
// any outgoing connection or other listener may be given the same port. A port
// of this package is safe from that:
//
//  1. It lies below the range from which the kernel takes ports for outgoing
//     connections and for listeners on port 0.
//  2. No other process that uses this package has it: a UDP socket is bound to the
//     same number. TCP doesn't mind that, and it ends with the process.
//  3. Nobody listened on it, at any address, when it was reserved.
//
// A listener of the test's own process keeps the port in use for a moment after Close if the process starts others
// meanwhile. socket.CloseListener doesn't; the project's servers use it.
//
// If the kernel's range is unknown or leaves no room below it, 1 doesn't hold.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const (
	lowest      = 16100 // deploy/package/test.sh takes its port from 10000 to 15999
	roomMin     = 4000  // ports from lowest to the kernel's range; tests of all packages at once take a few hundred
	attemptsMax = 1000  // places tried before giving up: they are rarely taken
)

// A test is a *testing.T, *testing.B or testing.TB. Programs should not import
// package testing.
type test interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

// Take reserves n consecutive ports until the test ends. If there are none, the
// test fails.
func Take(t test, n int) []int {
	t.Helper()
	ports, release, err := Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return ports
}

// Address reserves a port until the test ends and returns it with the loopback
// address: "127.0.0.1:port".
func Address(t test) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Take(t, 1)[0])
}

// Reserve reserves n consecutive ports until release is called or the process
// ends. Each costs a file descriptor. It doesn't block.
func Reserve(n int) (ports []int, release func(), err error) {
	return ofProcess().reserve(n)
}

// ofProcess returns the process's search for ports.
var ofProcess = sync.OnceValue(func() *search {
	s := &search{}
	// Before it starts its first process, Go does a clone that doesn't take
	// ForkLock (os.checkPidfd), so tryListening couldn't keep it out. Do it here,
	// before anything listens.
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Release()
	}
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		s.end = firstNumber(string(text))
	}
	if s.roomy() {
		s.next = lowest + rand.IntN(s.end-lowest) // so that processes rarely meet
	}
	return s
})

// firstNumber returns the number at the start of text, 0 if there is none.
func firstNumber(text string) int {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(text[:end])
	return n
}

// A search goes through the ports from lowest to end, again and again, so a
// released port rests before another test gets it.
type search struct {
	end int // where the kernel's range begins; 0 if that is unknown

	mu   sync.Mutex
	next int
}

func (s *search) roomy() bool { return s.end-lowest >= roomMin }

func (s *search) reserve(n int) (ports []int, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range attemptsMax {
		var first int
		if first, err = s.place(n); err != nil {
			break
		}
		if release, err = hold(first, n); err == nil {
			for i := range n {
				ports = append(ports, first+i)
			}
			return ports, release, nil
		}
	}
	return nil, nil, fmt.Errorf("find %d free ports in a row: %w", n, err)
}

// place returns the first of n ports to try.
func (s *search) place(n int) (int, error) {
	if !s.roomy() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port, nil
	}
	if s.next+n > s.end {
		s.next = lowest
	}
	first := s.next
	s.next += n
	return first, nil
}

// hold reserves all n ports from first on, or none.
func hold(first, n int) (release func(), err error) {
	var sockets []net.PacketConn
	release = func() {
		for _, s := range sockets {
			s.Close()
		}
	}
	for port := first; port < first+n; port++ {
		s, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			sockets = append(sockets, s)
			err = tryListening(port)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// tryListening returns an error if something listens on port.
func tryListening(port int) error {
	// A process that is being started holds a copy of each open file for a moment,
	// and would keep the port in use after Close.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	// The wildcard doesn't collide with a single address on every system.
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
