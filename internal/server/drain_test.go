package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestDrain drains the leader: another server leads, the clients that were there are sent
// away with their sessions, and new ones get no session.
func TestDrain(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	lead := leader(t, servers)
	c := connect(t, opts[lead].Listen[0], 0, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := servers[lead].Drain(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server leads", func() bool { // an election may still be under way
		q := servers[lead].Quorum()
		return !q.IsLeader && q.Leader != 0
	})
	if !servers[lead].Draining() {
		t.Error("it doesn't say that it drains")
	}
	c.conn.SetReadDeadline(time.Now().Add(sessionTimeout * 3 / 4))
	if _, err := c.conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the client that was there reads %v", err)
	}
	if conn, err := net.Dial("tcp", opts[lead].Listen[0]); err != nil {
		t.Error(err)
	} else if handshake(t, conn, 0, nil) != nil {
		t.Error("a new client gets a session of a server that drains")
	}
	if text := wordOf(t, opts[lead].Listen[0], "srvr"); len(text) == 0 {
		t.Error("a server that drains answers no words")
	}
	resumed := connect(t, opts[(lead+1)%3].Listen[0], c.session, c.passwd)
	if h, _ := resumed.call(jute.OpCreate, creating("/drained", nil, 0)); h.Err != jute.OK {
		t.Errorf("a write of the session elsewhere: %v", h.Err)
	}
}

// TestDrainTimeout: a server whose others are gone says that nobody takes over, and keeps
// its clients; a server alone doesn't begin.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Patience: time.Hour})
	lead := leader(t, servers)
	c := connect(t, opts[lead].Listen[0], 0, nil)
	servers[(lead+1)%3].Close()
	servers[(lead+2)%3].Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := servers[lead].Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("draining without the others: %v", err)
	}
	c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.conn.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("its client reads %v", err)
	}
	if err := open(t, Options{}).Drain(t.Context()); !errors.Is(err, ErrAlone) {
		t.Errorf("draining a server alone: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
