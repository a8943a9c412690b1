package socket

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"time"
)

// TestTryWriterAfterADeadline: the deadline of an earlier write says nothing about
// one that doesn't wait.
func TestTryWriterAfterADeadline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	try := TryWriter(here)
	if try == nil {
		t.Skip("no such write on this system")
	}
	here.SetWriteDeadline(time.Now().Add(-time.Second))
	sent := []byte("now")
	if n := try(sent); n != len(sent) {
		t.Fatalf("%d of %d bytes written", n, len(sent))
	}
	got := make([]byte, len(sent))
	if _, err := there.Read(got); err != nil || !slices.Equal(got, sent) {
		t.Errorf("%q arrived, %v", got, err)
	}
}

// TestAcked writes to a connection that nobody reads, until both ends' buffers are
// full: some of it is on its way until it is read.
func TestAcked(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	acked := AckedBy(near)
	if acked == nil {
		t.Skip("this system doesn't tell what was acknowledged")
	}
	until := func(what string, want bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); acked() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: acknowledged: %t", what, !want)
			}
		}
	}
	near.Write([]byte("little"))
	until("a few bytes", true)
	go near.Write(bytes.Repeat([]byte{1}, 64<<20)) // more than all buffers hold
	until("what nobody reads", false)
	go func() {
		b := make([]byte, 1<<20)
		for {
			if _, err := far.Read(b); err != nil {
				return
			}
		}
	}()
	until("what was read", true)
}
