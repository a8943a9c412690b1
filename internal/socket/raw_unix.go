//go:build unix

package socket

import (
	"net"
	"syscall"
)

// rawTCP returns a TCP connection for system calls, nil for any other connection.
func rawTCP(nc net.Conn) syscall.RawConn {
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
