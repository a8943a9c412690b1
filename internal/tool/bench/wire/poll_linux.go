package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Poll reads many connections on one goroutine, in the order in which frames arrive. A goroutine for each connection
// costs 50 % more, on processors that the server needs.
type Poll struct {
	conns []*Conn
	epoll int
	ready []unix.EpollEvent
}

// readyAtOnce is how many connections one system call may report.
const readyAtOnce = 256

// NewPoll takes over the connections, which must all be TCP. Afterwards only Queue, Flush and Close may be called on
// them.
func NewPoll(_ context.Context, conns []*Conn) (*Poll, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wait for many connections: %w", err)
	}
	e := &Poll{epoll: epoll, ready: make([]unix.EpollEvent, readyAtOnce)}
	for i, c := range conns {
		if err := e.add(i, c); err != nil {
			e.Close()
			return nil, fmt.Errorf("wait for many connections: %w", err)
		}
	}
	return e, nil
}

// add takes over a connection from the runtime, which would otherwise be woken too.
func (e *Poll) add(i int, c *Conn) error {
	raw, err := c.Net.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	s := &bareSocket{}
	if outer := raw.Control(func(fd uintptr) { s.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); outer != nil ||
		err != nil {
		return errors.Join(outer, err)
	}
	c.Net.Close()
	c.Net = s
	e.conns = append(e.conns, c)
	return unix.EpollCtl(e.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
}

// Each calls each with every frame that arrives on connection i, until there were as many frames as connections.
func (e *Poll) Each(ctx context.Context, each func(i int, frame []byte) error) error {
	const patienceMs = 100 // between two checks of ctx
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
			if err := e.conns[i].Fill(); err != nil {
				return err
			}
			for {
				frame, err := e.conns[i].Take()
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

// Close ends the polling. It leaves the connections open.
func (e *Poll) Close() { unix.Close(e.epoll) }

// bareSocket is a connected socket that the runtime doesn't know. It blocks only if it has a deadline.
type bareSocket struct {
	net.Conn // nil: no other method is called
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
	return errors.Join(unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left),
		unix.SetNonblock(s.fd, false))
}

func (s *bareSocket) Close() error { return unix.Close(s.fd) }
