package zk

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A peer is the server's end of one connection, scripted by a test. It can send what no honest server would, when the
// test wants. It runs over net.Pipe, so that time in a synctest bubble doesn't pass while bytes are in transit.
type peer struct {
	t       *testing.T
	conn    net.Conn
	server  string
	connect jute.ConnectRequest
	over    chan struct{}
}

// hang does nothing, not even read, until the test is over.
func (p *peer) hang() { <-p.over }

// A request is a frame the client sent.
type request struct {
	xid  int32
	op   jute.Op
	body []byte
}

// decoder returns a decoder over the request's body.
func (r request) decoder() *jute.Decoder { return jute.NewDecoder(r.body) }

// path returns the request's first field.
func (r request) path() string { return r.decoder().String() }

// A network runs the next script for each dial. The last script serves all further dials.
type network struct {
	t       *testing.T
	mu      sync.Mutex
	scripts []func(*peer)
	dials   []string
	over    chan struct{} // closed when the test is over
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, address)
	script := n.scripts[0]
	if script == nil {
		if len(n.scripts) > 1 {
			n.scripts = n.scripts[1:]
		}
		return nil, errors.New("connection refused")
	}
	if len(n.scripts) > 1 {
		n.scripts = n.scripts[1:]
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		script(&peer{t: n.t, conn: theirs, server: address, over: n.over})
	}()
	return ours, nil
}

// scripted runs test in a bubble with a client whose dials meet the scripts in
// turn; a nil script refuses the connection. The client is closed at the end.
func scripted(t *testing.T, opt Options, test func(*testing.T, *Client, *network), scripts ...func(*peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, scripts: scripts, over: make(chan struct{})}
		defer close(n.over)
		opt.Dial = n.dial
		c, err := New("a:1,b:2,c:3", opt)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, c, n)
	})
}

// The session that a peer grants by default.
const (
	peerSession = 0x1234
	peerTimeout = 6 * time.Second
)

var peerPasswd = []byte("sixteen bytes it")

// frame reads one frame; at the connection's end it ends the script.
func (p *peer) frame() []byte {
	b, err := jute.ReadFrame(p.conn, nil, 1<<24)
	if err != nil {
		if err != io.EOF && err != io.ErrClosedPipe && err != io.ErrUnexpectedEOF {
			p.t.Errorf("peer: read: %v", err)
		}
		runtime.Goexit()
	}
	return b
}

// write sends raw bytes; the client may have gone.
func (p *peer) write(b []byte) {
	if _, err := p.conn.Write(b); err != nil {
		runtime.Goexit()
	}
}

// hello reads the handshake without answering.
func (p *peer) hello() {
	d := jute.NewDecoder(p.frame())
	p.connect.Decode(d)
	if d.Err() != nil || !p.connect.HasReadOnly {
		p.t.Errorf("peer: handshake %+v, %v", p.connect, d.Err())
	}
}

// answer sends the handshake's answer.
func (p *peer) answer(r jute.ConnectResponse) {
	r.HasReadOnly = true
	p.write(jute.AppendFrame(nil, r.Append))
}

// accept shakes hands and grants the usual session.
func (p *peer) accept() *peer {
	p.hello()
	p.answer(jute.ConnectResponse{Timeout: int32(peerTimeout.Milliseconds()), SessionID: peerSession, Passwd: peerPasswd})
	return p
}

// next returns the next request other than a ping, which it answers.
func (p *peer) next() request {
	for {
		r := p.raw()
		if r.op != jute.OpPing {
			return r
		}
		p.reply(r.xid, 0, jute.OK, nil)
	}
}

// raw returns the next request.
func (p *peer) raw() request {
	b := p.frame()
	d := jute.NewDecoder(b)
	var h jute.RequestHeader
	h.Decode(d)
	if d.Err() != nil {
		p.t.Errorf("peer: request header: %v", d.Err())
	}
	return request{h.Xid, h.Op, d.Rest()}
}

// want returns the next request, which must be of op.
func (p *peer) want(op jute.Op) request {
	r := p.next()
	if r.op != op {
		if r.op == jute.OpCloseSession {
			runtime.Goexit() // the test has failed already and said why
		}
		p.t.Errorf("peer: got %s %s, want %s", r.op, r.path(), op)
		runtime.Goexit()
	}
	return r
}

func (p *peer) reply(xid int32, zxid int64, code Code, body []byte) {
	p.write(jute.AppendReply(nil, jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}, jute.Encoded(body)))
}

func (p *peer) notify(zxid int64, typ EventType, path string) {
	e := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	p.reply(jute.XidNotification, zxid, jute.OK, e.Append(nil))
}

// serve answers every request with a plausible reply until the connection ends. The zxids of writes grow from 100.
func (p *peer) serve() {
	for zxid := int64(100); ; {
		r := p.next()
		if r.op.IsWrite() {
			zxid++
		}
		p.obey(r, zxid)
		if r.op == jute.OpCloseSession {
			return
		}
	}
}

// obey answers one request.
func (p *peer) obey(r request, zxid int64) {
	var body []byte
	stat := Stat{Czxid: 7, DataLength: 4}
	switch r.op {
	case jute.OpGetData:
		res := jute.GetDataResponse{Data: []byte("data"), Stat: stat}
		body = res.Append(nil)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		body = stat.Append(nil)
	case jute.OpGetChildren2:
		res := jute.Children2Response{Children: []string{"x", "y"}, Stat: stat}
		body = res.Append(nil)
	case jute.OpCreate:
		body = jute.AppendString(nil, r.path())
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		body = stat.Append(jute.AppendString(nil, r.path()))
	}
	p.reply(r.xid, zxid, jute.OK, body)
}

// accepting is the script of an honest server.
func accepting(p *peer) { p.accept().serve() }

// get is the call most tests make; it must succeed.
func get(t *testing.T, c *Client, path string) {
	t.Helper()
	data, _, err := c.Get(t.Context(), path)
	if err != nil || string(data) != "data" {
		t.Fatalf("Get(%s) = %q, %v", path, data, err)
	}
}

// isError fails the test unless err is target and says so about op.
func isError(t *testing.T, err, target error, op string) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, target) || e.Op != op {
		t.Fatalf("error %v (%T), want %v of %s", err, err, target, op)
	}
	return e
}
