//go:build unix

package server

import (
	"net"
	"syscall"
	"testing"
)

// TestTCPKeepAlive: the system probes client connections only if that is asked for.
func TestTCPKeepAlive(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		s := open(t, Options{TCPKeepAlive: on})
		connect(t, s.Addrs()[0].String(), 0, nil)
		s.connections.mu.Lock()
		for nc := range s.connections.of {
			raw, err := nc.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) {
				if v, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); err != nil || v != 0 != on {
					t.Errorf("asked for %t: SO_KEEPALIVE is %d, %v", on, v, err)
				}
			})
		}
		s.connections.mu.Unlock()
	}
}
