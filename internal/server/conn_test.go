package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// patience bounds a wait for what must come. Nothing is judged by it: it only ends a test that would wait for ever, so
// it is far longer than anything takes on a busy machine.
const patience = 2 * time.Minute

// within reports whether a condition comes to hold within patience.
func within(holds func() bool) bool {
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// rawClient speaks the protocol by hand and pipelines.
type rawClient struct {
	t       testing.TB
	conn    net.Conn
	session int64
	passwd  []byte
	xid     int32
}

func open(t testing.TB, opt Options) *Server {
	t.Helper()
	opt.DataDir, opt.Listen = t.TempDir(), []string{"127.0.0.1:0"}
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// connect opens a session, or resumes one; it tries until the server serves.
func connect(t testing.TB, addr string, session int64, passwd []byte) *rawClient {
	t.Helper()
	var c *rawClient
	if !within(func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		if c = handshake(t, conn, session, passwd); c == nil {
			conn.Close()
		}
		return c != nil
	}) {
		t.Fatalf("no session on %s in %v", addr, patience)
	}
	return c
}

// sessionTimeout is what connect asks for: longer than ends waits.
const sessionTimeout = 40 * time.Second

// handshake opens or resumes a session on a connection; nil if the server closes that instead.
func handshake(t testing.TB, conn net.Conn, session int64, passwd []byte) *rawClient {
	return handshakeFor(t, conn, sessionTimeout, session, passwd)
}

// handshakeFor is handshake with the session's timeout, as far as the server grants it.
func handshakeFor(t testing.TB, conn net.Conn, timeout time.Duration, session int64, passwd []byte) *rawClient {
	c := &rawClient{t: t, conn: conn}
	if passwd == nil {
		passwd = make([]byte, jute.PasswdSize)
	}
	conn.SetDeadline(time.Now().Add(patience))
	ms := int32(timeout.Milliseconds())
	req := jute.ConnectRequest{Timeout: ms, SessionID: session, Passwd: passwd, HasReadOnly: true}
	if _, err := conn.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		return nil
	}
	frame, err := jute.ReadFrame(conn, nil, 1<<20)
	if err != nil {
		return nil
	}
	var res jute.ConnectResponse
	res.Decode(jute.NewDecoder(frame))
	c.session, c.passwd = res.SessionID, append([]byte(nil), res.Passwd...)
	conn.SetDeadline(time.Now().Add(5 * time.Minute)) // of all that the test does with it, on a slow disk
	t.Cleanup(func() { conn.Close() })
	return c
}

// request encodes one request and returns its xid.
func (c *rawClient) request(b []byte, op jute.Op, record func([]byte) []byte) []byte {
	c.xid++
	return jute.AppendRequest(b, c.xid, op, record)
}

// reply reads one frame.
func (c *rawClient) reply() (jute.ReplyHeader, []byte) {
	c.t.Helper()
	frame, err := jute.ReadFrame(c.conn, nil, 4<<20)
	if err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	var h jute.ReplyHeader
	h.Decode(jute.NewDecoder(frame))
	return h, frame[jute.ReplyHeaderSize:]
}

func (c *rawClient) call(op jute.Op, record func([]byte) []byte) (jute.ReplyHeader, []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(c.request(nil, op, record)); err != nil {
		c.t.Fatal(err)
	}
	return c.reply()
}

// ends reports whether the server ends the connection, without another word. Silence
// is no end; a session of connect would be over if it lasted longer.
func (c *rawClient) ends() bool {
	c.conn.SetReadDeadline(time.Now().Add(sessionTimeout * 3 / 4))
	n, err := c.conn.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func creating(path string, data []byte, mode jute.CreateMode) func([]byte) []byte {
	r := jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	return r.Append
}

func setting(path string, data []byte) func([]byte) []byte {
	r := jute.SetDataRequest{Path: path, Data: data, Version: -1}
	return r.Append
}

func reading(path string, watch bool) func([]byte) []byte {
	r := jute.PathWatchRequest{Path: path, Watch: watch}
	return r.Append
}

// TestPipelinesOfAnySize sends writes and reads of all sizes, cut into pieces at
// random places, without waiting for answers: each answer comes in the order of
// the requests, each read shows exactly its connection's writes before it, and
// zxids never go back.
func TestPipelinesOfAnySize(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 100, 400, 600, 2000, 5000, 70_000, 300_000}
	for round := range 20 {
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		path := fmt.Sprintf("/n%d", round)
		if h, _ := c.call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
			t.Fatalf("create: %v", h.Err)
		}
		var stream []byte
		var want []int // size that a read must show, -1 for a write
		last := 0
		for range 60 {
			if rng.IntN(3) == 0 {
				last = sizes[rng.IntN(len(sizes))]
				stream = c.request(stream, jute.OpSetData, setting(path, make([]byte, last)))
				want = append(want, -1)
			} else {
				stream = c.request(stream, jute.OpGetData, reading(path, false))
				want = append(want, last)
			}
		}
		go func() {
			for len(stream) > 0 {
				n := min(len(stream), 1+rng.IntN(1<<rng.IntN(18)))
				if _, err := c.conn.Write(stream[:n]); err != nil {
					return
				}
				stream = stream[n:]
			}
		}()
		first, zxid := c.xid-int32(len(want))+1, int64(0)
		for i, size := range want {
			h, body := c.reply()
			if h.Xid != first+int32(i) || h.Err != jute.OK || h.Zxid < zxid {
				t.Fatalf("round %d, answer %d: xid %d, error %v, zxid 0x%x after 0x%x", round, i, h.Xid, h.Err, h.Zxid, zxid)
			}
			zxid = h.Zxid
			if size >= 0 {
				if got := int(int32(binary.BigEndian.Uint32(body))); got != size && !(size == 0 && got <= 0) {
					t.Fatalf("round %d, answer %d: read %d bytes, its own writes before it left %d", round, i, got, size)
				}
			}
		}
		c.conn.Close()
	}
}

// TestPingsHaveOneXid: the answer to a ping has the xid of pings, whatever the request's was, as on Apache.
func TestPingsHaveOneXid(t *testing.T) {
	t.Parallel()
	c := connect(t, open(t, Options{}).Addrs()[0].String(), 0, nil)
	for _, xid := range []int32{jute.XidPing, 0, 7, -9} {
		if _, err := c.conn.Write(jute.AppendRequest(nil, xid, jute.OpPing, nil)); err != nil {
			t.Fatal(err)
		}
		if h, body := c.reply(); h.Xid != jute.XidPing || h.Err != jute.OK || len(body) != 0 {
			t.Errorf("xid %d: %+v and %d bytes", xid, h, len(body))
		}
	}
}

// TestBadFramesEndTheConnection sends what no client sends; the connection ends
// and others go on.
func TestBadFramesEndTheConnection(t *testing.T) {
	t.Parallel()
	s := open(t, Options{SessionlessTimeout: time.Hour}) // it would end each connection without a session
	addr := s.Addrs()[0].String()
	good := connect(t, addr, 0, nil)
	length := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	for name, bytes := range map[string][]byte{
		"negative length":     length(0xffffffff),
		"huge length":         length(1 << 30),
		"zero length":         length(0),
		"shorter than header": length(4, 0, 0, 0, 1),
	} {
		c := connect(t, addr, 0, nil)
		c.conn.Write(bytes)
		if !c.ends() {
			t.Errorf("%s: the connection goes on", name)
		}
	}
	for name, bytes := range map[string][]byte{
		"not a word":          []byte("nope"),
		"large first frame":   length(1 << 20),
		"short first frame":   length(3, 1, 2, 3),
		"negative first size": length(0x80000000),
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write(bytes)
		if !(&rawClient{conn: conn}).ends() {
			t.Errorf("%s: it was answered, or the connection goes on", name)
		}
		conn.Close()
	}
	if h, _ := good.call(jute.OpPing, nil); h.Err != jute.OK {
		t.Errorf("a good client got %v", h.Err)
	}
	c := connect(t, addr, 0, nil)
	if h, _ := c.call(888, nil); h.Err != jute.ErrUnimplemented {
		t.Errorf("unknown operation: %v", h.Err)
	}
	if !c.ends() {
		t.Error("the connection goes on after an unknown operation")
	}
}

// TestSessionResumes moves a session to a new connection: with its password
// only, and the old connection ends.
func TestSessionResumes(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	addr := s.Addrs()[0].String()
	a := connect(t, addr, 0, nil)
	if h, _ := a.call(jute.OpCreate, creating("/e", nil, jute.ModeEphemeral)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if thief := connect(t, addr, a.session, make([]byte, jute.PasswdSize)); thief.session != 0 {
		t.Error("a wrong password resumed the session")
	}
	b := connect(t, addr, a.session, a.passwd)
	if b.session != a.session {
		t.Fatalf("session %x resumed as %x", a.session, b.session)
	}
	if !a.ends() {
		t.Error("the old connection goes on")
	}
	if h, _ := b.call(jute.OpExists, reading("/e", false)); h.Err != jute.OK {
		t.Errorf("the session's ephemeral: %v", h.Err)
	}
	if h, _ := b.call(jute.OpCloseSession, nil); h.Err != jute.OK {
		t.Errorf("close: %v", h.Err)
	}
	if gone := connect(t, addr, a.session, a.passwd); gone.session != 0 {
		t.Error("a closed session was resumed")
	}
	c := connect(t, addr, 0, nil)
	if h, _ := c.call(jute.OpExists, reading("/e", false)); h.Err != jute.ErrNoNode {
		t.Errorf("the ephemeral of a closed session: %v", h.Err)
	}
}

// TestRestartKeepsSessions stops a server and opens its directory again: data,
// the session and its ephemeral are there, and zxids go on upwards.
func TestRestartKeepsSessions(t *testing.T) {
	t.Parallel()
	for _, logDir := range []string{"", t.TempDir()} {
		restartKeepsSessions(t,
			Options{DataDir: t.TempDir(), LogDir: logDir, Listen: []string{"127.0.0.1:0"}, Serving: Serving{SnapCount: 50}})
	}
}

func restartKeepsSessions(t *testing.T, opt Options) {
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/e", nil, jute.ModeEphemeral))
	var before jute.ReplyHeader
	for i := range 200 {
		before, _ = c.call(jute.OpCreate, creating(fmt.Sprintf("/p%03d", i), []byte("data"), 0))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(opt); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	again := connect(t, s.Addrs()[0].String(), c.session, c.passwd)
	if again.session != c.session {
		t.Fatal("the session did not survive the restart")
	}
	h, body := again.call(jute.OpGetChildren, reading("/", false))
	var res jute.ChildrenResponse
	res.Decode(jute.NewDecoder(body))
	if len(res.Children) != 202 || h.Zxid < before.Zxid {
		t.Errorf("%d children of the root (want 202), zxid 0x%x after 0x%x", len(res.Children), h.Zxid, before.Zxid)
	}
}

// A trickle gives as many bytes as are left of it at a time, at the most step, and notes the room it was offered.
type trickle struct {
	net.Conn
	left, step, offered int
}

func (c *trickle) Read(b []byte) (int, error) {
	c.offered = max(c.offered, len(b))
	n := min(len(b), c.step, c.left)
	if c.left -= n; n == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return n, nil
}

// TestAnnouncedBytesTakeNoRoom: a connection that announces a large connect request takes as
// much memory as it has sent, and as much again.
func TestAnnouncedBytesTakeNoRoom(t *testing.T) {
	const announced = jute.ConnectRequestSizeMax
	for _, sent := range []int{5, 400, 600, 1200, announced} {
		c := &trickle{left: sent, step: 100}
		in, err := readTo(c, make([]byte, 0, inputBytesMin), announced)
		if whole := sent == announced; whole != (err == nil) || whole && len(in) != announced {
			t.Errorf("of %d bytes %d were read: %v", sent, len(in), err)
		}
		if most := max(inputBytesMin, sent); c.offered > most {
			t.Errorf("a connection that has sent %d bytes got room for %d at once", sent, c.offered)
		}
	}
}
