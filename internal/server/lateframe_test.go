package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestLateFrame sends a request byte by byte: the server closes the connection once the request's time is over, and
// leaves another alone that sent as much and finishes.
func TestLateFrame(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	slow, steady := connect(t, s.Addrs()[0].String(), 0, nil), connect(t, s.Addrs()[0].String(), 0, nil)
	frame := slow.request(nil, jute.OpSetData, setting("/", make([]byte, 100)))
	begun := time.Now()
	steady.conn.Write(frame[:50])
	steady.conn.Write(frame[50:])
	for i := 0; time.Since(begun) < 30*time.Second; i = min(i+1, 90) {
		if _, err := slow.conn.Write(frame[i : i+1]); err != nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if took := time.Since(begun); took < 10*time.Second || took > 25*time.Second {
		t.Errorf("the connection was closed after %v, want soon after 10 s", took)
	}
	if h, _ := steady.reply(); h.Err != jute.OK {
		t.Errorf("the other one is answered %v", h.Err)
	}
}
