package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestMuteCallersMakeRoom: clients of two addresses ask for long answers and read nothing, each on several connections.
// A client of a third address gets its answer nevertheless, and again.
func TestMuteCallersMakeRoom(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	for i := range 700 {
		watched := jute.PathWatchRequest{Path: fmt.Sprintf("/%d-%s", i, strings.Repeat("x", 10_000)), Watch: true}
		if code, err := st.clients["A"].call(jute.OpExists, watched.Append(nil)); err != nil || code != jute.ErrNoNode {
			t.Fatal(code, err)
		}
	}
	ask := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
		conn, err := d.Dial("tcp", st.s.Addrs()[0].String())
		if err != nil {
			t.Skipf("this system has no %s: %v", from, err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { conn.Close() })
		if from != "127.0.0.1" {
			conn.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel would take much of the answer
		}
		if _, err := io.WriteString(conn, "wchp"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	mutes := []string{"127.0.0.2", "127.0.0.3"}
	for _, from := range mutes {
		if _, err := ask(from).Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range mutes {
		for range 5 {
			ask(from)
		}
	}
	for n := range 3 {
		answer, err := io.ReadAll(ask("127.0.0.1"))
		if err != nil || len(answer) < 700*10_000 {
			t.Fatalf("answer %d: %d bytes, %v: %.100q", n, len(answer), err, answer)
		}
	}
}
