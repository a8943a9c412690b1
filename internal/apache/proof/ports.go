package proof

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Port is what is known about the listener at an address.
type Port string

const (
	Open    Port = "open"      // a process accepts connections
	Closed  Port = "closed"    // the kernels of the machines at the address, which may be several, refuse connections
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

// ProbeOwn is Probe for the ports of a server on this machine. A refusal counts only at addresses that the kernel lists
// as this machine's own: elsewhere a firewall, or another machine, may have refused.
func ProbeOwn(ctx context.Context, addresses []string) map[string]Port {
	all := Probe(ctx, addresses)
	own, err := net.InterfaceAddrs()
	for address, port := range all { // each by itself
		if port == Closed && (err != nil || !ownAddress(ctx, address, own)) {
			all[address] = Unknown
		}
	}
	return all
}

// ownAddress reports whether a host's name stands only for addresses of this machine.
func ownAddress(ctx context.Context, address string, own []net.Addr) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, portPatience)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	for _, ip := range ips {
		if !ip.IP.IsLoopback() && !slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip.IP)
		}) {
			return false
		}
	}
	return err == nil && len(ips) > 0
}

func probe(ctx context.Context, address string) Port {
	ctx, cancel := context.WithTimeout(ctx, portPatience)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Unknown
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return Unknown
	}
	return probeAll(ctx, ips, port)
}

// probeAll probes a port at all addresses of a host: the port is open if it is open at one of them, and closed if each
// of them refuses.
func probeAll(ctx context.Context, ips []net.IPAddr, port string) Port {
	found := make(chan Port)
	for _, ip := range ips {
		go func() { found <- probeOne(ctx, net.JoinHostPort(ip.String(), port)) }()
	}
	closed, open := 0, false
	for range ips {
		p := <-found
		open = open || p == Open
		if p == Closed {
			closed++
		}
	}
	switch {
	case open:
		return Open
	case closed > 0 && closed == len(ips):
		return Closed
	}
	return Unknown
}

func probeOne(ctx context.Context, address string) Port {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		conn.Close()
		return Open
	case errors.Is(err, syscall.ECONNREFUSED):
		return Closed
	}
	return Unknown
}
