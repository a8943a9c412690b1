package server

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// refusedAuth is an auth request that fails.
func refusedAuth() []byte {
	p := jute.AuthPacket{Scheme: "none"}
	return jute.AppendRequest(nil, jute.XidAuth, jute.OpAuth, p.Append)
}

// TestLastReplyIsRead: a client that has sent more, which the server doesn't read as requests, reads the server's last
// reply, and then the end instead of a reset.
func TestLastReplyIsRead(t *testing.T) {
	t.Parallel()
	_, plain, secure := openSecure(t, "none", func(opt *Options) {
		opt.Auth.SASL = true
		opt.SASL = replica.SASLOptions{Mechanism: sasl.NewDigestMD5(nil, "", rand.Reader)}
	})
	begin := func(over string) *rawClient {
		if over == plain {
			return connect(t, plain, 0, nil)
		}
		return session(t, secure, "")
	}
	for _, last := range []struct {
		what   string
		rounds int
		send   func(*rawClient) []byte
		want   jute.Code
	}{
		{"a refused auth", 200, func(*rawClient) []byte { return refusedAuth() }, jute.ErrAuthFailed},
		{"a refused SASL login", 20, func(c *rawClient) []byte {
			return c.request(nil, jute.OpSASL, (&jute.SASLPacket{Token: []byte("wrong")}).Append)
		}, jute.ErrAuthFailed},
		{"closeSession", 20, func(c *rawClient) []byte { return c.request(nil, jute.OpCloseSession, nil) }, jute.OK},
	} {
		for round := range last.rounds {
			for _, over := range []string{plain, secure} {
				c := begin(over)
				b := last.send(c)
				for more := []int{2, 100, 4000}[round%3]; more > 0; more-- {
					b = c.request(b, jute.OpGetData, reading("/", false))
				}
				if _, err := c.conn.Write(b); err != nil {
					t.Fatalf("%s, round %d: write: %v", last.what, round, err)
				}
				if h, _ := c.reply(); h.Err != last.want {
					t.Fatalf("%s, round %d: answered %v, want %v", last.what, round, h.Err, last.want)
				}
				if rest, err := io.ReadAll(c.conn); len(rest) > 0 || err != nil {
					t.Fatalf("%s, round %d, %s: %d more bytes, then %v", last.what, round, over, len(rest), err)
				}
				c.conn.Close()
			}
		}
	}
}

// TestExpiredReplyIsRead: a client that names a session that is over, and sends requests with its connect request,
// reads that the session is over, and then the end.
func TestExpiredReplyIsRead(t *testing.T) {
	t.Parallel()
	addr := open(t, Options{}).Addrs()[0].String()
	over := connect(t, addr, 0, nil)
	over.call(jute.OpCloseSession, nil)
	for round := range 50 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := &rawClient{t: t, conn: nc}
		hello := jute.ConnectRequest{Timeout: 10_000, SessionID: over.session, Passwd: over.passwd, HasReadOnly: true}
		b := jute.AppendFrame(nil, hello.Append)
		for range 1 + round*50 {
			b = c.request(b, jute.OpGetData, reading("/", false))
		}
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		frame, err := jute.ReadFrame(nc, nil, 1<<20)
		if err != nil {
			t.Fatalf("round %d: no answer: %v", round, err)
		}
		var res jute.ConnectResponse
		if res.Decode(jute.NewDecoder(frame)); res.SessionID != 0 {
			t.Fatalf("round %d: session %#x", round, res.SessionID)
		}
		if rest, err := io.ReadAll(nc); len(rest) > 0 || err != nil {
			t.Fatalf("round %d: %d more bytes, then %v", round, len(rest), err)
		}
		nc.Close()
	}
}

// TestLingererMakesRoom: a connection that waits for its client to close it counts, and is closed to make room, before
// a connection that is silent. It isn't counted as refused, because its client was served.
func TestLingererMakesRoom(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"maxClientCnxns": {MaxClientConnections: 2, SessionlessTimeout: time.Hour},
		"maxCnxns":       {MaxConnections: 2, SessionlessTimeout: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, opt)
			addr := s.Addrs()[0].String()
			dial := func() net.Conn {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				return nc
			}
			silent := dial()
			defer silent.Close()
			eventually(t, "the silent connection counts", func() bool { return s.connections.count() == 1 })
			for range 5 {
				c := connect(t, addr, 0, nil)
				if _, err := c.conn.Write(refusedAuth()); err != nil {
					t.Fatal(err)
				}
				if h, _ := c.reply(); h.Err != jute.ErrAuthFailed {
					t.Fatalf("answered %v", h.Err)
				}
				eventually(t, "the connection has ended, and lingers", func() bool { return len(s.replica.Connections()) == 0 })
				refused, nc := s.meters.ConnectionRejected.Value(), dial()
				next := handshake(t, nc, 0, nil)
				if next == nil {
					t.Fatal("a connection that lingers keeps another one out")
				}
				if n := s.meters.ConnectionRejected.Value() - refused; n != 0 {
					t.Errorf("%d connections count as refused", n)
				}
				next.call(jute.OpCloseSession, nil)
				nc.Close()
				eventually(t, "it is gone", func() bool { return s.connections.count() == 1 })
			}
			if handshake(t, silent, 0, nil) == nil {
				t.Error("the silent connection is gone")
			}
		})
	}
}

// TestLingererIsClosed: a client that doesn't close its connection after the server has, keeps nothing for long.
func TestLingererIsClosed(t *testing.T) {
	t.Parallel()
	s, plain, secure := openSecure(t, "none", nil)
	for _, c := range []*rawClient{connect(t, plain, 0, nil), session(t, secure, "")} {
		if h, _ := c.call(jute.OpCloseSession, nil); h.Err != jute.OK {
			t.Fatalf("closeSession: %v", h.Err)
		}
		if rest, err := io.ReadAll(c.conn); len(rest) > 0 || err != nil {
			t.Fatalf("%d more bytes, then %v", len(rest), err)
		}
	}
	eventually(t, "the server has closed both connections", func() bool { return s.connections.count() == 0 })
}

// TestAnsweredWordMakesRoom: connections whose four-letter words are answered, and that their clients keep open, take
// no more open files than the limit leaves for connections, and make room before one that lingers. No other limit
// counts them.
func TestAnsweredWordMakesRoom(t *testing.T) {
	t.Parallel()
	s := open(t, Options{MaxClientConnections: 2, MaxConnections: 2})
	cs := s.connections
	cs.descriptorsMax = 4
	enter := func() (entered, out net.Conn) {
		t.Helper()
		entered, _ = net.Pipe()
		out, why := cs.enter(entered)
		if why != "" {
			t.Fatal(why)
		}
		return entered, out
	}
	client, _ := enter()
	cs.lingers(client)
	var words []net.Conn
	for n := range 20 {
		word, out := enter()
		if want := net.Conn(nil); n < 3 && out != want || n >= 3 && out != words[n-3] {
			t.Fatalf("word %d: %v makes room", n, out)
		}
		if out != nil {
			out.Close()
			cs.forget(out)
		}
		cs.answered(word)
		words = append(words, word)
		if most := min(n+1, 3); cs.count() != 1 || cs.answers.Len() != most {
			t.Fatalf("word %d: %d connections, and %d with an answered word, want 1 and %d",
				n, cs.count(), cs.answers.Len(), most)
		}
	}
	cs.closeAll()
	for _, word := range words {
		if _, err := word.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
			t.Error("a connection with an answered word is open: ", err)
		}
	}
	cs.answered(client)
	cs.forget(client)
	if cs.count() != 0 || cs.answers.Len() != 0 {
		t.Errorf("%d connections, and %d with an answered word are left", cs.count(), cs.answers.Len())
	}
}

// TestAnsweredWordCounts: a connection counts as one that waits for its client, once its word is answered.
func TestAnsweredWordCounts(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	client, nc := net.Pipe()
	defer client.Close()
	go io.Copy(io.Discard, client)
	ending := &endingConn{Conn: nc, atEnd: func() [2]int {
		return [2]int{s.connections.count(), s.connections.answers.Len()}
	}}
	s.connections.enter(ending)
	s.acceptor.fourLetterWord(ending, "srvr", nil)
	if ending.counted != [2]int{0, 1} {
		t.Errorf("%d connections, and %d with an answered word, want 0 and 1", ending.counted[0], ending.counted[1])
	}
}

// endingConn calls atEnd when its output ends.
type endingConn struct {
	net.Conn
	atEnd   func() [2]int
	counted [2]int
}

func (c *endingConn) CloseWrite() error {
	c.counted = c.atEnd()
	return c.Conn.Close()
}
