package proof

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Port is what is known about the listener at an address.
type Port string

const (
	Open    Port = "open"      // a process accepts connections
	Closed  Port = "closed"    // the kernel of the machine at the address refuses connections
	Unknown Port = "not known" // no answer, no route, no such name: a firewall and a dead machine look like that
)

// portPatience is how long a machine may take to answer.
const portPatience = time.Second

// Probe connects to all addresses at once, and returns the result for each.
func Probe(ctx context.Context, addresses []string) map[string]Port {
	var mu sync.Mutex
	var wait sync.WaitGroup
	all := make(map[string]Port, len(addresses))
	for _, address := range addresses {
		wait.Go(func() {
			p := probe(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			all[address] = p
		})
	}
	wait.Wait()
	return all
}

func probe(ctx context.Context, address string) Port {
	conn, err := (&net.Dialer{Timeout: portPatience}).DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		conn.Close()
		return Open
	case errors.Is(err, syscall.ECONNREFUSED):
		return Closed
	}
	return Unknown
}
