package socket

import (
	"net"
	"syscall"
	"unsafe"
)

// AckedBy returns a function that reports whether the other end's kernel has acknowledged all data written to a
// connection. It returns nil if that can't be determined.
func AckedBy(nc net.Conn) func() bool {
	raw := rawTCP(nc)
	if raw == nil {
		return nil
	}
	return func() bool {
		acked := false
		err := raw.Control(func(fd uintptr) { acked = allAcked(fd) })
		return err == nil && acked
	}
}

// allAcked reports whether the kernel has received acknowledgements for all data written to fd. An error counts as
// false.
func allAcked(fd uintptr) bool {
	waiting := int32(0)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&waiting)))
	return errno == 0 && waiting == 0
}
