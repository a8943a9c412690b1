package server

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestReader: bytes, a deadline, the end, a reset and a closed connection come
// out of reader as they do out of Read.
func TestReader(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (here, there *net.TCPConn) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close(); c.Close() })
		return a.(*net.TCPConn), c.(*net.TCPConn)
	}
	buf := make([]byte, 8)
	want := func(read func([]byte) (int, error), n int, target error) {
		t.Helper()
		if got, err := read(buf); got != n || !errors.Is(err, target) {
			t.Errorf("%d bytes, error %v; want %d, %v", got, err, n, target)
		}
	}
	here, there := pair()
	read := reader(here)
	here.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	want(read, 0, os.ErrDeadlineExceeded)
	here.SetReadDeadline(time.Time{})
	go func() {
		time.Sleep(10 * time.Millisecond)
		there.Write([]byte("0123456789"))
	}()
	want(read, 8, nil)
	want(read, 2, nil)
	there.Close()
	want(read, 0, io.EOF)
	here.Close()
	want(read, 0, net.ErrClosed)

	here, there = pair()
	there.SetLinger(0)
	there.Close()
	want(reader(here), 0, syscall.ECONNRESET)
}
