package server

import (
	"net"
	"os"
	"testing"
	"time"
)

// A mute is a connection whose other end neither sends nor reads: what has a deadline ends at it.
type mute struct {
	net.Conn
	deadline time.Time
	written  int
}

func (m *mute) SetDeadline(t time.Time) error      { m.deadline = t; return nil }
func (m *mute) SetWriteDeadline(t time.Time) error { m.deadline = t; return nil }
func (m *mute) SetReadDeadline(time.Time) error    { return nil } // of stmk's mask
func (m *mute) Read([]byte) (int, error)           { return 0, os.ErrDeadlineExceeded }
func (m *mute) Write(p []byte) (int, error)        { m.written += len(p); return 0, os.ErrDeadlineExceeded }
func (m *mute) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (m *mute) Close() error                       { return nil }

// TestDeadlinesOfTheMute: who asks for a word and doesn't take the answer, and who connects to a server that hasn't
// joined and says nothing, has the time that was set, and no more.
func TestDeadlinesOfTheMute(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	for name, c := range map[string]struct {
		serve func(c net.Conn)
		limit time.Duration
		tries bool // to write
	}{
		"a word":      {func(c net.Conn) { st.s.acceptor.fourLetterWord(c, "srvr", nil) }, wordTimeout, true},
		"turned away": {func(c net.Conn) { st.s.acceptor.turnAway(c, false, "") }, turnAwayPatience, false},
	} {
		m := &mute{}
		before := time.Now()
		c.serve(m)
		if m.deadline.Before(before.Add(c.limit)) || m.deadline.After(time.Now().Add(c.limit)) {
			t.Errorf("%s: has until %v, %v from now", name, m.deadline, time.Until(m.deadline))
		}
		if (m.written > 0) != c.tries {
			t.Errorf("%s: %d bytes were written", name, m.written)
		}
	}
}
