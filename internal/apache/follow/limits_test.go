package follow

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// serving returns the server of a follower that follows nobody.
func serving(t *testing.T) *Server {
	t.Helper()
	f, err := Open(Options{Dir: t.TempDir(), ID: 200, Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.keep.close() })
	f.at.Live = true
	s, err := NewServer(f, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pipe returns a client of a server, and its other end.
func pipe(t *testing.T, s *Server) (*client, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	c := s.admit(near)
	if c == nil {
		t.Fatal("the client isn't let in")
	}
	return c, far
}

// TestClientsMax: one connection too many is closed at once, and leaves room when another goes.
func TestClientsMax(t *testing.T) {
	t.Parallel()
	s := serving(t)
	var last *client
	for range clientsMax {
		last, _ = pipe(t, s)
	}
	if near, _ := net.Pipe(); s.admit(near) != nil {
		t.Errorf("more than %d are let in", clientsMax)
	}
	s.leave(last)
	pipe(t, s)
}

// TestRequestMax: a larger request, and a first one larger than any, end the connection.
func TestRequestMax(t *testing.T) {
	t.Parallel()
	connect := (&jute.ConnectRequest{Timeout: 10_000, ReadOnly: true, HasReadOnly: true, Passwd: make([]byte, 16)}).Append(
		nil)
	for name, c := range map[string]struct {
		send    []byte
		replies int
	}{
		"request":   {append(jute.AppendFrame(nil, jute.Encoded(connect)), jute.AppendInt(nil, requestMax+1)...), 1},
		"connect":   {jute.AppendInt(nil, 1<<10+1), 0},
		"no record": {jute.AppendFrame(nil, jute.Encoded([]byte{1, 2})), 0},
		"no header": {
			append(jute.AppendFrame(nil, jute.Encoded(connect)), jute.AppendFrame(nil, jute.Encoded([]byte{1}))...), 1,
		},
		"no body": {
			append(jute.AppendFrame(nil, jute.Encoded(connect)),
				jute.AppendRequest(nil, 1, jute.OpGetData, jute.Encoded(nil))...), 2,
		},
	} {
		cl, far := pipe(t, serving(t))
		go cl.serve()
		go far.Write(c.send)
		far.SetReadDeadline(time.Now().Add(patience))
		all, err := io.ReadAll(far)
		replies := 0
		for r := bytes.NewReader(all); ; replies++ {
			if _, err := jute.ReadFrame(r, nil, requestMax); err != nil {
				break
			}
		}
		if err != nil || replies != c.replies {
			t.Errorf("%s: %d replies, %v; want %d and the end", name, replies, err, c.replies)
		}
	}
}

// TestOutputMax: a client that doesn't read what it asked for is cut off.
func TestOutputMax(t *testing.T) {
	t.Parallel()
	c, far := pipe(t, serving(t))
	part := make([]byte, 1<<20)
	for range outputMax/len(part) + 1 {
		c.put(jute.Encoded(part))
	}
	if _, err := far.Read(part); !errors.Is(err, io.EOF) || len(c.out) != 0 {
		t.Errorf("%v, %d bytes are kept", err, len(c.out))
	}
}

// TestWatchesMax: one watch too many is refused.
func TestWatchesMax(t *testing.T) {
	t.Parallel()
	c, _ := pipe(t, serving(t))
	path := []byte("/000000")
	for n := range watchesMax {
		for i, at := n, 6; at > 0; i, at = i/10, at-1 {
			path[at] = byte('0' + i%10)
		}
		if code := c.watch(string(path), watch.Data); code != jute.OK {
			t.Fatalf("watch %d: %v", n, code)
		}
	}
	if code := c.watch("/more", watch.Data); code != jute.ErrThrottledOp {
		t.Errorf("one more: %v", code)
	}
}

// FuzzClient: whatever a client sends, it is answered or cut off.
func FuzzClient(f *testing.F) {
	frame := func(op jute.Op, body []byte) []byte { return jute.AppendRequest(nil, 1, op, jute.Encoded(body)) }
	path := jute.AppendBool(jute.AppendString(nil, "/zookeeper"), true)
	f.Add(append(frame(jute.OpGetData, path), frame(jute.OpGetChildren2, path)...))
	f.Add(frame(jute.OpSetWatches,
		(&jute.SetWatches{Data: []string{"/a"}, Child: []string{"/"}}).Append(nil, jute.OpSetWatches)))
	f.Add(frame(jute.OpMultiRead, jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, Path: "/"}})))
	f.Add(frame(jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: []byte("a:b")}).Append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := serving(t)
		near, far := net.Pipe()
		defer far.Close()
		c := s.admit(near)
		defer s.leave(c)
		r := bytes.NewReader(b)
		for {
			req, err := jute.ReadFrame(r, nil, requestMax)
			if err != nil {
				return
			}
			var d jute.Decoder
			d.Reset(req)
			var h jute.RequestHeader
			h.Decode(&d)
			if d.Err() != nil || !c.answer(h, &d) {
				return
			}
		}
	})
}
