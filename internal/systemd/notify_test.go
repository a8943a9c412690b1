package systemd

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestNotify: what is told arrives as one datagram; without a manager nothing happens, and one that is gone is an
// error.
func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	path := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	if err := Notify(Ready, Status("two\nlines")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	l.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := l.Read(b)
	if got := string(b[:n]); err != nil || got != "READY=1\nSTATUS=two lines" {
		t.Errorf("it got %q, %v", got, err)
	}
	l.Close()
	if err := Notify(Stopping); err == nil {
		t.Error("nobody listens, and it is no error")
	}
	t.Setenv("NOTIFY_SOCKET", "relative")
	if err := Notify(Ready); err == nil {
		t.Error("a relative path is taken")
	}
}
