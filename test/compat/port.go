package compat

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// freePorts returns n ports of the loopback that nobody listens on, chosen by the kernel. Another process may take
// one before it is used; Start tries again with others.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("asking the kernel for a free port: %v", err)
		}
		defer l.Close() // only when all are chosen, so that all differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// Blocks lie below the kernel's own range (so no outgoing connection takes a port of one) and above 10000-16000,
// from where go-zookeeper's suite draws.
const (
	lowestBlock  = 16100
	highestBlock = 32000
)

// freeBlocks returns the first ports of n blocks of size consecutive free ports, for suites that take only a
// first port and count up from it.
func freeBlocks(t testing.TB, n, size int) []int {
	t.Helper()
	var firsts []int
	for attempt := 0; len(firsts) < n; attempt++ {
		if attempt == 100*n {
			t.Fatalf("looking for %d blocks of %d free ports between %d and %d: none in %d attempts",
				n, size, lowestBlock, highestBlock, attempt)
		}
		first := lowestBlock + rand.IntN(highestBlock-lowestBlock-size)
		listeners, whole := listenBlock(first, size)
		for _, l := range listeners {
			if whole {
				defer l.Close() // only when all are chosen
			} else {
				l.Close()
			}
		}
		if whole {
			firsts = append(firsts, first)
		}
	}
	return firsts
}

func listenBlock(first, size int) (listeners []net.Listener, whole bool) {
	for port := first; port < first+size; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return listeners, false
		}
		listeners = append(listeners, l)
	}
	return listeners, true
}
