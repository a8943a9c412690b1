//go:build unix

package server

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Reads and writes that can't wait are made without a word to Go's scheduler. What
// it does around a system call, lest that takes long, costs a small request a
// twentieth of its time, most of it if the server was idle before.

// reader returns a function that reads as nc.Read does, for one goroutine.
func reader(nc net.Conn) func([]byte) (int, error) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc.Read
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc.Read
	}
	var in []byte
	var got int
	var errno syscall.Errno
	read := func(fd uintptr) (done bool) {
		got, errno = readNow(fd, in)
		for errno == syscall.EINTR {
			got, errno = readNow(fd, in)
		}
		return errno != syscall.EAGAIN
	}
	return func(b []byte) (int, error) {
		in = b
		err := raw.Read(read)
		in = nil
		switch {
		case err != nil:
			return 0, err
		case errno != 0:
			return 0, os.NewSyscallError("read", errno)
		case got == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return got, nil
	}
}

// tryWriter returns a function that writes to a connection as much as goes
// without waiting, and returns how much that was; 0 also stands for an error,
// which the next ordinary write meets. It is nil where there is none. One
// goroutine at a time may call it, and none may write beside it.
func tryWriter(nc net.Conn) func([]byte) int {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var out []byte
	var sent int
	write := func(fd uintptr) { sent, _ = writeNow(fd, out) }
	return func(b []byte) int {
		out, sent = b, 0
		// Not raw.Write, which refuses once the deadline of an earlier write is over.
		err := raw.Control(write)
		out = nil
		if err != nil {
			return 0
		}
		return max(sent, 0)
	}
}
