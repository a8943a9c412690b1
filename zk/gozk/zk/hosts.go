package zk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A HostProvider chooses the server for each attempt to connect. A Conn calls its methods one at a time, from several
// goroutines.
type HostProvider interface {
	// Init is called first, with the servers passed to Connect, each with its port.
	Init(servers []string) error

	// Len returns the number of servers.
	Len() int

	// Next returns the server to try. retryStart is true if all servers were tried since Connected was last called; then
	// calls that wait for a connection fail with ErrNoServer.
	Next() (server string, retryStart bool)

	// Connected is called when the last attempt has led to a session.
	Connected()
}

// A DNSHostProvider resolves the servers' names once, in Init, and returns their addresses in random order. It is the
// default of a Conn.
type DNSHostProvider struct {
	lookup time.Duration

	mu      sync.Mutex
	servers []string
	at      int // index of the server that Next returned last, -1 before
	start   int // index at which the round began, -1 before
}

// A DNSHostProviderOption configures a DNSHostProvider.
type DNSHostProviderOption interface{ apply(*DNSHostProvider) }

type lookupTimeout time.Duration

func (t lookupTimeout) apply(p *DNSHostProvider) { p.lookup = time.Duration(t) }

// WithLookupTimeout bounds the duration of Init. 0 means three seconds, the default.
func WithLookupTimeout(timeout time.Duration) DNSHostProviderOption { return lookupTimeout(timeout) }

// lookupDefault bounds the duration of Init by default.
const lookupDefault = 3 * time.Second

// NewDNSHostProvider returns a DNSHostProvider.
func NewDNSHostProvider(options ...DNSHostProviderOption) *DNSHostProvider {
	p := &DNSHostProvider{lookup: lookupDefault}
	for _, o := range options {
		o.apply(p)
	}
	return p
}

// Init resolves the servers' names. It fails if one of them can't be resolved.
func (hp *DNSHostProvider) Init(servers []string) error {
	timeout := hp.lookup
	if timeout == 0 {
		timeout = lookupDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var found []string
	for _, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return err
		}
		addresses, err := new(net.Resolver).LookupHost(ctx, host)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			found = append(found, net.JoinHostPort(address, port))
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("zk: none of the servers %q has an address", servers)
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	hp.mu.Lock()
	defer hp.mu.Unlock()
	hp.servers, hp.at, hp.start = found, -1, -1
	return nil
}

// Len returns the number of addresses.
func (hp *DNSHostProvider) Len() int {
	hp.mu.Lock()
	defer hp.mu.Unlock()
	return len(hp.servers)
}

// Next returns the next address, and whether a round is complete, as HostProvider says. It panics before Init.
func (hp *DNSHostProvider) Next() (server string, retryStart bool) {
	hp.mu.Lock()
	defer hp.mu.Unlock()
	hp.at = (hp.at + 1) % len(hp.servers)
	retryStart = hp.at == hp.start
	hp.start = max(hp.start, 0)
	return hp.servers[hp.at], retryStart
}

// Connected starts a new round after the server that Next returned last.
func (hp *DNSHostProvider) Connected() {
	hp.mu.Lock()
	defer hp.mu.Unlock()
	hp.start = hp.at
}
