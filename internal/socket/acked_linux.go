package socket

import (
	"net"
	"syscall"
	"unsafe"
)

// AckedBy returns a function that reports whether the other end's kernel has
// acknowledged all that was written to a connection; nil where that can't be known.
func AckedBy(nc net.Conn) func() bool {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return func() bool {
		waiting := int32(0)
		err := raw.Control(func(fd uintptr) {
			syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&waiting)))
		})
		return err == nil && waiting == 0
	}
}
