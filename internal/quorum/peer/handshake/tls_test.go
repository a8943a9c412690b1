package handshake

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// An undecided is a connection whose other end doesn't show what it speaks: its deadline is over when it is read.
type undecided struct {
	net.Conn
	deadline time.Time
}

// TestDetectionTimeout: on a port for TLS and plain text a connection may wait for as long as configured, but no less
// than the usual time, until it shows which of both it is.
func TestDetectionTimeout(t *testing.T) {
	t.Parallel()
	for detection, want := range map[time.Duration]time.Duration{
		0: tlsTimeout, tlsTimeout / 2: tlsTimeout, 9 * time.Second: 9 * time.Second,
	} {
		s := Secure{Server: &tls.Config{}, Plain: true, Detection: detection}
		c := &undecided{}
		before := time.Now()
		if _, _, err := s.Accepted(t.Context(), c); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("detection in %v: %v", detection, err)
		}
		if c.deadline.Before(before.Add(want)) || c.deadline.After(time.Now().Add(want)) {
			t.Errorf("detection in %v: the connection has %v, want %v", detection, c.deadline.Sub(before), want)
		}
	}
}

func (u *undecided) SetDeadline(t time.Time) error { u.deadline = t; return nil }
func (u *undecided) Read([]byte) (int, error)      { return 0, os.ErrDeadlineExceeded }
