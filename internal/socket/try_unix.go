//go:build unix

package socket

import (
	"net"
	"syscall"
)

// TryWriter returns a function that writes as much as possible to a connection without blocking, and returns the number
// of bytes written. 0 may also mean an error, which the next ordinary write returns. TryWriter returns nil if nc
// doesn't support this. Only one goroutine at a time may call the function, and no other write may run meanwhile.
func TryWriter(nc net.Conn) func([]byte) int {
	raw := rawTCP(nc)
	if raw == nil {
		return nil
	}
	var out []byte
	var sent int
	write := func(fd uintptr) { sent, _ = syscall.Write(int(fd), out) }
	return func(b []byte) int {
		out, sent = b, 0
		// raw.Write would fail after the deadline of an earlier write.
		err := raw.Control(write)
		out = nil
		if err != nil {
			return 0
		}
		return max(sent, 0)
	}
}
