package socket

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestDelivered: what the other end has acknowledged grows by what is written, once it has arrived.
func TestDelivered(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	before, ok := Delivered(near)
	if !ok {
		t.Fatal("it isn't known")
	}
	const size = 100_000
	go near.Write(make([]byte, size))
	if _, err := io.CopyN(io.Discard, far, size); err != nil {
		t.Fatal(err)
	}
	for by := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		after, ok := Delivered(near)
		if ok && after-before == size {
			return
		}
		if !ok || time.Now().After(by) || after-before > size {
			t.Fatalf("%d bytes are delivered, %v; want %d", after-before, ok, size)
		}
	}
}

// TestDeliveredUnknown: it isn't known of what is no TCP connection, or is closed.
func TestDeliveredUnknown(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if _, ok := Delivered(near); ok {
		t.Error("of a pipe")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tcp.Close()
	if _, ok := Delivered(tcp); ok {
		t.Error("of a closed connection")
	}
}
