package peer

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unackedMax is how long sent bytes may stay unacknowledged before the kernel ends a
// connection to a peer. By default the kernel retries for minutes, at growing intervals,
// and would notice late that the network has healed.
const unackedMax = time.Second

// endUnacked makes the kernel end a peer connection after unackedMax.
func endUnacked(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMax/time.Millisecond))
	}); e != nil {
		return e
	}
	return err
}
