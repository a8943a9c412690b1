package socket

import (
	"io"
	"net"
	"testing"
)

// TestReplay reads what was taken from a connection and then what comes, in small pieces.
func TestReplay(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		io.WriteString(far, "of a request")
		far.Close()
	}()
	conn := Replay(near, []byte("the head "))
	var got []byte
	for b := make([]byte, 5); ; {
		n, err := conn.Read(b)
		if got = append(got, b[:n]...); err != nil {
			break
		}
	}
	if string(got) != "the head of a request" {
		t.Errorf("read %q", got)
	}
}
