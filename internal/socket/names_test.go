package socket

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// resolver is a DNS that a test controls: it says how often a name is unknown before it is there.
type resolver struct {
	fails int
	err   error
	asked int
}

func (r *resolver) open(string) (net.Listener, error) {
	if r.asked++; r.asked <= r.fails {
		return nil, &net.OpError{Op: "listen", Err: r.err}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func TestListenWaitsForName(t *testing.T) {
	t.Parallel()
	unknown := &net.DNSError{Err: "no such host", Name: "zk-0.zk", IsNotFound: true}
	elsewhere := os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
	taken := os.NewSyscallError("bind", syscall.EADDRINUSE)
	for _, c := range []struct {
		name, addr     string
		err            error
		fails, retries int
		asked, told    int
		opened         bool
	}{
		{"known at once", "zk-0.zk:2888", nil, 0, 3, 1, 0, true},
		{"unknown twice", "zk-0.zk:2888", unknown, 2, 3, 3, 1, true},
		{"the last attempt", "zk-0.zk:2888", unknown, 3, 3, 4, 1, true},
		{"one attempt more than allowed", "zk-0.zk:2888", unknown, 4, 3, 4, 1, false},
		{"for ever", "zk-0.zk:2888", unknown, 100, -1, 101, 1, true},
		{"no attempt allowed", "zk-0.zk:2888", unknown, 1, 0, 1, 0, false},
		{"a former address", "zk-0.zk:2888", elsewhere, 1, 3, 2, 1, true},
		{"a silent resolver", "zk-0.zk:2888", &net.DNSError{Err: "i/o timeout", IsTimeout: true}, 1, 3, 2, 1, true},
		{"another process", "zk-0.zk:2888", taken, 1, -1, 1, 0, false},
		{"a number", "192.0.2.1:2888", elsewhere, 1, -1, 1, 0, false},
		{"a number of IPv6", "[2001:db8::1]:2888", elsewhere, 1, -1, 1, 0, false},
		{"every interface", ":2888", elsewhere, 1, -1, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dns, told := &resolver{fails: c.fails, err: c.err}, 0
			b := Binder{Retries: c.retries, open: dns.open, pause: time.Microsecond, Waiting: func(string, error) { told++ }}
			l, err := b.Listen(c.addr)
			if l != nil {
				defer l.Close()
			}
			if (err == nil) != c.opened || dns.asked != c.asked || told != c.told {
				t.Errorf("error %v after %d attempts, told %d times; want opened %t, %d attempts, told %d times",
					err, dns.asked, told, c.opened, c.asked, c.told)
			}
		})
	}
}

func TestStopEndsTheWait(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	unknown := &net.DNSError{Err: "no such host", IsNotFound: true}
	dns := &resolver{fails: 1 << 30, err: unknown}
	b := Binder{Retries: -1, Stop: stop, open: dns.open, pause: time.Hour, Waiting: func(string, error) { close(stop) }}
	if l, err := b.Listen("zk-0.zk:2888"); !errors.Is(err, unknown) || l != nil {
		t.Fatalf("got %v, %v; want the error of the name", l, err)
	}
}
