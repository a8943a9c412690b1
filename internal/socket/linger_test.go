package socket

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// lingering returns the two ends of a connection, and a function that makes the near end linger and then closes it, in
// another goroutine. The channel is closed afterwards.
func lingering(t *testing.T) (near, far net.Conn, begin func(patience time.Duration) <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far, func(patience time.Duration) <-chan struct{} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Linger(near, patience)
			near.Close()
		}()
		return ended
	}
}

// TestLingerTakesWrites: the other end can still write after the end of the output, so that it goes on to read.
// Apache's C client does so when it repeats an auth request that was refused.
func TestLingerTakesWrites(t *testing.T) {
	t.Parallel()
	near, far, begin := lingering(t)
	near.Write([]byte("no"))
	near.SetReadDeadline(time.Now().Add(-time.Second)) // says nothing about this
	ended := begin(time.Hour)
	if got, err := io.ReadAll(far); string(got) != "no" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
	for n := range 10 {
		near.SetReadDeadline(time.Now())
		if _, err := far.Write(make([]byte, lingerReadBytes+1)); err != nil {
			t.Fatalf("write %d after the end of the output: %v", n, err)
		}
	}
	select {
	case <-ended:
		t.Fatal("it has ended before the other end closed")
	default:
	}
	far.Close()
	<-ended
}

// TestLingerIsBounded: it ends after its patience, after lingerBytesMax, and when the connection is closed.
func TestLingerIsBounded(t *testing.T) {
	t.Parallel()
	_, _, begin := lingering(t)
	<-begin(time.Millisecond)

	_, far, begin := lingering(t)
	ended := begin(time.Hour)
	for err := error(nil); err == nil; {
		_, err = far.Write(make([]byte, lingerBytesMax/4))
	}
	<-ended

	near, far, begin := lingering(t)
	ended = begin(time.Hour)
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("read: %v", err)
	}
	near.Close()
	<-ended
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
}
