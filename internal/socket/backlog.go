//go:build unix

package socket

import (
	"net"
	"syscall"
)

// SetBacklog bounds the connections that the kernel queues for a listener until they are accepted. A new listener has
// the system's limit, which is also the maximum.
func SetBacklog(l net.Listener, n int) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { syscall.Listen(int(fd), n) }) // calling listen again only changes the backlog
	}
}
