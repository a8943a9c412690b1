package server

import (
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// TestCloseBeforeARefusalIsTold: a server that is closed doesn't wait until the client of a refused write has been
// told.
func TestCloseBeforeARefusalIsTold(t *testing.T) {
	t.Parallel()
	s := open(t, Options{spacePause: time.Hour})
	connect(t, s.Addrs()[0].String(), 0, nil) // it serves
	near, far := net.Pipe()
	hello := jute.AppendFrame(nil, (&jute.ConnectRequest{Timeout: 20_000, Passwd: make([]byte, jute.PasswdSize)}).Append)
	c := s.acceptor.greet(near, hello, nil)
	c.Socket.(*clientSocket).acked = func() bool { return false } // as of a connection that the server has closed
	if _, err := s.acceptor.handshake(near, c, hello); err != nil {
		t.Fatal(err)
	}
	if _, err := jute.ReadFrame(far, nil, 1<<10); err != nil {
		t.Fatal(err)
	}
	<-c.Answered()
	raw := &rawClient{t: t, conn: far}
	s.replica.Space(storage.SpaceState{Level: storage.SpaceRefuse}, false)
	if _, err := s.requests.receiveAll(near, c, &inTurn{}, raw.request(nil, jute.OpDelete, deleting("/no"))); err != nil {
		t.Fatal(err)
	}
	go s.requests.replies.flushOwn(near, c)
	if h, _ := raw.reply(); h.Err != jute.ErrThrottledOp {
		t.Fatalf("a write on a full disk: %v", h.Err)
	}
	s.replica.Space(storage.SpaceState{}, false)
	ended := make(chan error)
	go func() {
		_, err := s.requests.receiveAll(near, c, &inTurn{}, raw.request(nil, jute.OpDelete, deleting("/no")))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the write behind the refusal: %v", err)
	case <-time.After(10 * untoldPause):
	}
	s.Close()
	select {
	case err := <-ended:
		if err != errStopping {
			t.Errorf("the server is closed: %v", err)
		}
	case <-time.After(patience):
		t.Error("a connection's reader goes on after the server was closed")
	}
}
