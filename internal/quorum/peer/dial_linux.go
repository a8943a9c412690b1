package peer

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unackedMax is how long the kernel lets bytes to a peer go without an
// acknowledgement. Left alone it would try for minutes, at growing intervals, and
// find a healed network late.
const unackedMax = time.Second

// endUnacked bounds a peer connection by unackedMax.
func endUnacked(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMax/time.Millisecond))
	}); e != nil {
		return e
	}
	return err
}
