package socket

import (
	"net"

	"golang.org/x/sys/unix"
)

// Delivered returns how many bytes the other end's kernel has acknowledged since the connection began; ok is false if
// that can't be determined. The kernel lets a blocked writer go on only once a third of its send buffer, which may have
// megabytes, is free; until then only this number shows that the other end reads.
func Delivered(nc net.Conn) (n uint64, ok bool) {
	tcp, is := nc.(*net.TCPConn)
	if !is {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if ok = err == nil; ok {
			n = info.Bytes_acked
		}
	})
	return n, ok && err == nil
}
