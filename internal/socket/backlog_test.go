//go:build linux

package socket

import (
	"net"
	"testing"
	"time"
)

// TestSetBacklog: the kernel takes no more connections for a listener that accepts none than it was told to, and one or
// two that Linux adds.
func TestSetBacklog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const backlog, some = 2, 10
	SetBacklog(l, backlog)
	taken := 0
	for range some {
		nc, err := net.DialTimeout("tcp", l.Addr().String(), 2*time.Second)
		if err != nil {
			break
		}
		defer nc.Close()
		taken++
	}
	if taken < backlog || taken == some {
		t.Errorf("%d connections were taken, the backlog is %d", taken, backlog)
	}
}
