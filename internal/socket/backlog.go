//go:build unix

package socket

import (
	"net"
	"syscall"
)

// SetBacklog bounds the connections that the kernel takes for a listener before they are accepted. The system's own
// limit, which a listener begins with, is the most.
func SetBacklog(l net.Listener, n int) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { syscall.Listen(int(fd), n) }) // a second listen changes the number alone
	}
}
