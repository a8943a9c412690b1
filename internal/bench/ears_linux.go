package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// ears hear what comes on many connections, on one goroutine and in the order in
// which it comes. A goroutine for each connection costs half as much again, on the
// processors that the server needs.
type ears struct {
	conns []*conn
	epoll int
	ready []unix.EpollEvent
}

// heardAtOnce is how many connections one system call may report.
const heardAtOnce = 256

// newEars takes the connections over: what is left of them then are queue, flush
// and close. All must be TCP.
func newEars(_ context.Context, conns []*conn) (*ears, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wait for many connections: %w", err)
	}
	e := &ears{epoll: epoll, ready: make([]unix.EpollEvent, heardAtOnce)}
	for i, c := range conns {
		if err := e.add(i, c); err != nil {
			e.close()
			return nil, fmt.Errorf("wait for many connections: %w", err)
		}
	}
	return e, nil
}

// add takes a connection from the runtime, which would otherwise be woken too.
func (e *ears) add(i int, c *conn) error {
	raw, err := c.net.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	s := &bareSocket{}
	if outer := raw.Control(func(fd uintptr) { s.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); outer != nil || err != nil {
		return errors.Join(outer, err)
	}
	c.net.Close()
	c.net = s
	e.conns = append(e.conns, c)
	return unix.EpollCtl(e.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
}

// hear calls each with every frame that comes on connection i, until there were as
// many as connections.
func (e *ears) hear(ctx context.Context, each func(i int, frame []byte) error) error {
	const patienceMs = 100 // between looks at ctx
	for left := len(e.conns); left > 0; {
		n, err := unix.EpollWait(e.epoll, e.ready, patienceMs)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, ev := range e.ready[:max(n, 0)] {
			i := int(ev.Fd)
			if err := e.conns[i].fill(); err != nil {
				return err
			}
			for {
				frame, err := e.conns[i].take()
				if err != nil {
					return err
				}
				if frame == nil {
					break
				}
				if err := each(i, frame); err != nil {
					return err
				}
				left--
			}
		}
	}
	return nil
}

// close ends the hearing; the connections are still to be closed.
func (e *ears) close() { unix.Close(e.epoll) }

// bareSocket is a connected socket that the runtime doesn't know. It waits only
// once it has a deadline.
type bareSocket struct {
	net.Conn // nil: nothing else is asked of it
	fd       int
}

func (s *bareSocket) Read(b []byte) (int, error) {
	n, err := unix.Read(s.fd, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func (s *bareSocket) Write(b []byte) (int, error) {
	n, err := unix.Write(s.fd, b)
	return max(n, 0), err
}

func (s *bareSocket) SetDeadline(t time.Time) error {
	left := unix.NsecToTimeval(max(time.Until(t), time.Millisecond).Nanoseconds())
	return errors.Join(unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left), unix.SetNonblock(s.fd, false))
}

func (s *bareSocket) Close() error { return unix.Close(s.fd) }
