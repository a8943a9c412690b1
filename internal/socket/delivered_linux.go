package socket

import (
	"net"

	"golang.org/x/sys/unix"
)

// Delivered returns how many bytes of a connection the other end's kernel has acknowledged. ok is false if that can't
// be determined. A blocked writer continues only when a third of its send buffer is free, which may be megabytes; until
// then only this number shows that the other end reads.
func Delivered(nc net.Conn) (n uint64, ok bool) {
	raw := rawTCP(nc)
	if raw == nil {
		return 0, false
	}
	err := raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if ok = err == nil; ok {
			n = info.Bytes_acked
		}
	})
	return n, ok && err == nil
}
