package auth

import (
	"strings"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// The limits of failed logins, which bound how fast passwords can be guessed. Failures are counted
// by address, so that nobody is locked out by failures elsewhere.
const (
	// FailedLoginsBurst is how many logins from one address may fail at once: enough for a room full
	// of clients whose password has just been changed.
	FailedLoginsBurst = 60
	// failedLoginEvery is the time (ns) after which one more login may fail: a second.
	failedLoginEvery = 1e9
	// throttledAddressesMax bounds the addresses remembered. When there are more, the remembered
	// address that failed first is forgotten.
	throttledAddressesMax = 10_000
)

// A Throttle counts failed logins by address. It is safe for concurrent use. The zero value is
// ready to use.
type Throttle struct {
	mu     sync.Mutex
	failed map[string]int64 // by address: when its failures expire, by the caller's clock, ns
	order  []string         // the addresses, oldest first; a ring once it is full
	next   int              // index of the oldest address in the ring
}

// Allows reports whether an address may try to log in at the time now (ns).
func (t *Throttle) Allows(address jute.ID, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	paid, known := t.failed[Neighbourhood(address.ID)]
	return !known || paid-now <= (FailedLoginsBurst-1)*failedLoginEvery
}

// Failed counts a login from an address that failed at the time now (ns).
func (t *Throttle) Failed(address jute.ID, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := Neighbourhood(address.ID)
	paid, known := t.failed[key]
	switch {
	case known:
	case t.failed == nil:
		t.failed = map[string]int64{}
		fallthrough
	case len(t.order) < throttledAddressesMax:
		t.order = append(t.order, key)
	default:
		delete(t.failed, t.order[t.next])
		t.order[t.next] = key
		t.next = (t.next + 1) % throttledAddressesMax
	}
	t.failed[key] = max(paid, now) + failedLoginEvery
}

// Neighbourhood returns the part of an address that is counted as one: a whole IPv4 address, or the
// 64 bits of an IPv6 address that identify its network, since a host may use all addresses of its
// network.
func Neighbourhood(address string) string {
	groups := 0
	for i := range len(address) {
		if address[i] == ':' {
			if groups++; groups == 4 {
				return strings.Clone(address[:i])
			}
		}
	}
	return address
}
