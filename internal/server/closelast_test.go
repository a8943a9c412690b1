package server

import (
	"errors"
	"io"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestNothingAfterClose sends a read and a ping behind a closeSession: the
// answer to that is the last thing a session hears.
func TestNothingAfterClose(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	b := c.request(nil, jute.OpCloseSession, nil)
	last := c.xid
	b = c.request(b, jute.OpGetData, reading("/", false))
	b = c.request(b, jute.OpPing, nil)
	if _, err := c.conn.Write(b); err != nil {
		t.Fatal(err)
	}
	if h, _ := c.reply(); h.Xid != last || h.Err != jute.OK {
		t.Errorf("closeSession was answered with xid %d, %v; its xid is %d", h.Xid, h.Err, last)
	}
	if frame, err := jute.ReadFrame(c.conn, nil, 1<<20); err == nil {
		t.Errorf("%d bytes came after the answer to closeSession", len(frame))
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("part of a frame came after the answer to closeSession: %v", err)
	}
}
