//go:build unix

package socket

import (
	"net"
	"syscall"
)

// TryWriter returns a function that writes to a connection as much as goes
// without waiting, and returns how much that was; 0 also stands for an error,
// which the next ordinary write meets. It is nil where there is none. One
// goroutine at a time may call it, and none may write beside it.
func TryWriter(nc net.Conn) func([]byte) int {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var out []byte
	var sent int
	write := func(fd uintptr) { sent, _ = syscall.Write(int(fd), out) }
	return func(b []byte) int {
		out, sent = b, 0
		// Not raw.Write, which refuses once the deadline of an earlier write is over.
		err := raw.Control(write)
		out = nil
		if err != nil {
			return 0
		}
		return max(sent, 0)
	}
}
