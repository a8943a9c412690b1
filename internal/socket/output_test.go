package socket

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestOutput: what the other end of a port's connection takes is known, and Reset ends a write to a client that doesn't
// read. The client sees that the answer isn't whole.
func TestOutput(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := NewPort(l, nil, time.Minute, 10)
	defer p.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	near.SetDeadline(time.Now().Add(time.Minute))
	far, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	out := Output{Conn: Replay(far, nil)}
	before, known := out.Delivered()
	if known != (runtime.GOOS == "linux") {
		t.Errorf("what is delivered is known: %t", known)
	}
	failed := make(chan error)
	go func() {
		for {
			if _, err := far.Write(make([]byte, 64<<10)); err != nil {
				failed <- err
				return
			}
		}
	}()
	if _, err := io.ReadFull(near, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if after, _ := out.Delivered(); known && after-before < 1<<20 {
		t.Errorf("%d bytes are delivered, and %d were read", after-before, 1<<20)
	}
	out.Reset()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the write ends with %v", err)
	}
	if _, err := io.Copy(io.Discard, near); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reads to the end, and gets %v", err)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("the port has %d connections", n)
	}
}
