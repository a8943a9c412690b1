package server

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/jute"
)

// appendHello appends the frame that opens a session.
func appendHello(b []byte) []byte {
	req := jute.ConnectRequest{Timeout: 20000, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	return jute.AppendFrame(b, req.Append)
}

// TestRequestsBehindConnect sends requests without waiting for the session, as the
// Java client does, whole and cut into pieces: each is answered, in order.
func TestRequestsBehindConnect(t *testing.T) {
	t.Parallel()
	addr := open(t, Options{}).Addrs()[0].String()
	connect(t, addr, 0, nil) // it serves now
	for _, piece := range []int{1, 7, 64, 1 << 20} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		c := &rawClient{t: t, conn: conn}
		b := c.request(appendHello(nil), jute.OpCreate,
			creating("/first", bytes.Repeat([]byte("x"), 2*inputBytesMin), jute.ModeEphemeral))
		b = c.request(b, jute.OpGetData, reading("/first", false))
		b = c.request(b, jute.OpCloseSession, nil)
		for ; len(b) > 0; b = b[min(piece, len(b)):] {
			if _, err := conn.Write(b[:min(piece, len(b))]); err != nil {
				t.Fatal(err)
			}
		}
		if frame, err := jute.ReadFrame(conn, nil, 1<<20); err != nil || len(frame) < jute.PasswdSize {
			t.Fatalf("pieces of %d bytes: the answer to connect has %d bytes, %v", piece, len(frame), err)
		}
		for xid := int32(1); xid <= c.xid; xid++ {
			if h, _ := c.reply(); h.Xid != xid || h.Err != jute.OK {
				t.Errorf("pieces of %d bytes: reply with xid %d, %v; want xid %d", piece, h.Xid, h.Err, xid)
			}
		}
	}
}

// TestIdleSession says nothing for longer than a connection without a session may.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	// A client has to send its connect request within that time too; connect tries again if a busy machine doesn't let
	// it.
	const sessionless = time.Second
	addr := open(t, Options{SessionlessTimeout: sessionless}).Addrs()[0].String()
	c := connect(t, addr, 0, nil)
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	silent.SetDeadline(time.Now().Add(patience))
	if n, err := silent.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("a connection that sent nothing got %d bytes, %v", n, err)
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("a connection that sent nothing is not closed")
	}
	// The session is older than that connection was.
	if h, _ := c.call(jute.OpPing, nil); h.Err != jute.OK {
		t.Errorf("ping: %v", h.Err)
	}
	if h, _ := c.call(jute.OpCreate, creating("/idle", nil, 0)); h.Err != jute.OK {
		t.Errorf("create: %v", h.Err)
	}
}

// TestClosingBeforeItsSession closes a connection that has sent requests behind its
// connect request and has no session yet: its goroutine doesn't wait for that for
// the whole timeout, in which it would count as one of its host's connections.
func TestClosingBeforeItsSession(t *testing.T) {
	t.Parallel()
	r := &requests{engine: &engine{
		lifetime: lifetime{closing: make(chan struct{})}, opt: Options{SessionlessTimeout: time.Hour},
	}}
	c := replica.NewClient(1, "test", jute.ID{}, replica.Woken(func() {}))
	c.Since = time.Now()
	const why = "its session may have been attached or not"
	c.CloseAfter(why)
	ended := make(chan error, 1)
	go func() { ended <- r.awaitSession(c) }()
	select {
	case err := <-ended:
		if err == nil || err.Error() != why {
			t.Errorf("it ends with %v, want %s", err, why)
		}
	case <-time.After(patience):
		close(r.closing)
		t.Error("it goes on waiting for a session")
	}
}
