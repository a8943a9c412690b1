package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// An acceptor accepts the connections of clients, and reads their first bytes.
type acceptor struct {
	*engine
	connections *connections
	handshakes  *handshakes
	requests    *requests
	replies     *replies
	drain       *drain
	stalls      *stalls
	auditor     *auditor
	words       *fourletter.Words
	reports     fourletter.Server // answers the words
	newID       func() int64      // generates ids for sessions and connections
}

// accept accepts connections until the listener is closed.
func (a *acceptor) accept(l net.Listener, secure bool) {
	for nc := range socket.Accepted(l, a.closing, func(err error) {
		a.clientLog.Error("a client could not be accepted; raise the limit of open files if this persists", "err", err, "code", "ZD-4003")
	}) {
		why := "its address opens connections faster than it may (limits.address)"
		if a.replica.MayConnect(addressID(nc.RemoteAddr().String())) {
			why = a.admit(nc)
		}
		if why != "" {
			a.refuse("a client connection was refused", nc, why)
			continue
		}
		a.wg.Add(1)
		go a.serve(nc, secure)
	}
}

// refuse closes a connection that isn't admitted.
func (a *acceptor) refuse(what string, nc net.Conn, why string) {
	a.clientLog.Warn(what, "client", nc.RemoteAddr().String(), "why", why, "code", "ZD-4004")
	a.meters.ConnectionRejected.Inc()
	a.auditor.turnedAway(nc.RemoteAddr().String(), why)
	nc.Close()
}

// admit registers a connection, or returns the reason why there is no room for it. If there are too many, admit first
// closes one that lingers, or one without a session, so that silent connections keep nobody out.
func (a *acceptor) admit(nc net.Conn) string {
	out, why := a.connections.enter(nc)
	if out == nil {
		return why
	}
	if why == "" {
		out.Close() // its client was served, not refused
	} else {
		a.refuse("a client connection without a session was closed to make room for others", out, why)
	}
	return ""
}

// serve handles one connection from beginning to end, on goroutines that follow one another; secure says that the
// connection begins with a TLS handshake. A goroutine that has done one-time work ends before a wait for the client,
// and another one waits, with few stack frames below the read. Go's stacks begin at 2 KiB, double, and hardly ever
// shrink, and the stack is most of the memory of an idle connection.
func (a *acceptor) serve(nc net.Conn, secure bool) {
	nc.SetReadDeadline(time.Now().Add(a.opt.SessionlessTimeout))
	if secure {
		a.secureConn(nc, nil)
	} else if in := a.readHead(nc); in != nil {
		a.open(nc, in)
	} else {
		a.done(nc)
	}
}

// open continues with a connection whose first bytes have arrived: in.
//
//go:noinline
func (a *acceptor) open(nc net.Conn, in []byte) {
	if a.opt.Secure.Unify && in[0] == tlsHandshakeRecord {
		a.secureConn(nc, in)
		return
	}
	if a.opt.Secure.TLS != nil {
		a.handshakes.countPlain(nc)
	}
	if c := a.greet(nc, in, nil); c != nil {
		a.awaitHello(nc, nc, c, in)
	} else {
		a.done(nc)
	}
}

// awaitHello continues with a connection that has a client. conn is the connection to read from
// and write to, which may be a TLS connection on top of nc.
func (a *acceptor) awaitHello(nc, conn net.Conn, c *replica.Client, in []byte) {
	if size, ok := helloSize(in); ok && len(in) < frameHead+size {
		go a.attach(nc, conn, c, in)
		return
	}
	a.attach(nc, conn, c, in)
}

// attach reads the connect request and processes it.
func (a *acceptor) attach(nc, conn net.Conn, c *replica.Client, in []byte) {
	in, err := a.handshake(conn, c, in)
	if err == nil {
		a.connections.known(nc)
		go a.serveClient(nc, conn, c, in)
		return
	}
	a.end(nc, conn, c, err)
}

// serveClient receives requests until the connection ends.
func (a *acceptor) serveClient(nc, conn net.Conn, c *replica.Client, in []byte) {
	a.end(nc, conn, c, a.requests.readRequests(conn, c, in))
}

// end ends a connection that has a client.
func (a *acceptor) end(nc, conn net.Conn, c *replica.Client, err error) {
	a.connections.lingers(nc)
	a.ended(c, err)
	if c.Established() { // otherwise nothing was said
		socket.Linger(conn, lingerPatience)
	}
	conn.Close()
	a.done(nc)
}

// done is the end of every connection.
func (a *acceptor) done(nc net.Conn) {
	nc.Close()
	a.connections.forget(nc)
	a.wg.Done()
}

// readHead returns the first bytes of a connection, enough to tell its protocol, or nil if they don't arrive.
func (a *acceptor) readHead(nc net.Conn) []byte {
	in, err := readTo(nc, make([]byte, 0, inputBytesMin), frameHead)
	if err != nil {
		a.saidNothing(nc, err)
		return nil
	}
	return in
}

// saidNothing records that a connection has ended before its first bytes arrived.
//
//go:noinline
func (a *acceptor) saidNothing(nc net.Conn, err error) {
	a.countSessionless(err)
	a.clientLog.Debug("a connection closed before it sent anything", "client", nc.RemoteAddr().String(), "err", err)
}

// readTo reads until buf has at least n bytes. It grows the buffer in proportion to the
// received bytes rather than to n: a client may announce more than it ever sends.
func readTo(nc net.Conn, buf []byte, n int) ([]byte, error) {
	for len(buf) < n {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, max(inputBytesMin, 2*cap(buf))), buf...)
		}
		got, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		if err != nil && len(buf) < n {
			return nil, err
		}
	}
	return buf, nil
}

// helloSize returns the size of a connection's first frame, which begins with in, and whether it
// may be a connect request.
func helloSize(in []byte) (size int, ok bool) {
	size = int(int32(binary.BigEndian.Uint32(in)))
	return size, size >= 0 && size <= jute.ConnectRequestSizeMax
}

// greet returns a client for a connection whose input begins with in. proof is what the connection has proved; nil if
// nothing. If the input is a four-letter word, greet answers it and returns nil.
func (a *acceptor) greet(nc net.Conn, in []byte, proof *auth.Proof) *replica.Client {
	if _, ok := helloSize(in); !ok {
		if word := string(in[:frameHead]); fourletter.Is(word) {
			a.fourLetterWord(nc, word, in[frameHead:])
			return nil
		}
	}
	if a.turnedAway(nc) {
		return nil
	}
	remote := nc.RemoteAddr().String()
	k := &clientSocket{out: a.replies, nc: nc, acked: socket.AckedBy(socket.Below(nc)), try: socket.TryWriter(nc)}
	c := replica.NewClient(a.newID(), remote, addressID(remote), k)
	k.c = c
	c.Since = time.Now()
	if proof != nil {
		c.Prove(proof)
	}
	return c
}

// handshake processes the connect request, which begins with in, and returns the input that followed it.
func (a *acceptor) handshake(nc net.Conn, c *replica.Client, in []byte) ([]byte, error) {
	size, ok := helloSize(in)
	if !ok {
		return nil, notHello(size)
	}
	in, err := readTo(nc, in, frameHead+size)
	if err != nil {
		return nil, helloCut(err)
	}
	return a.connect(c, in, frameHead+size)
}

//go:noinline
func notHello(size int) error {
	return fmt.Errorf("its first frame has %d bytes, a connect request at most %d: it isn't a ZooKeeper client's, or it is a four-letter word that doesn't exist",
		size, jute.ConnectRequestSizeMax)
}

//go:noinline
func helloCut(err error) error { return fmt.Errorf("read the connect request: %w", err) }

// connect takes the connect request in the first size bytes of in, and returns the rest.
//
//go:noinline
func (a *acceptor) connect(c *replica.Client, in []byte, size int) ([]byte, error) {
	d := jute.NewDecoder(in[frameHead:size])
	var hello jute.ConnectRequest // its password aliases in
	if hello.Decode(d); d.Err() != nil {
		return nil, fmt.Errorf("decode the connect request: %w", d.Err())
	}
	err := a.replica.Connect(c, &hello, a.newID)
	return append(in[:0], in[size:]...), err
}

// ended logs why a connection ended, and makes the replica forget its client.
func (a *acceptor) ended(c *replica.Client, err error) {
	if c.Established() {
		a.logEnd(c, err)
	} else {
		a.clientLog.Warn("a connection was closed during its handshake", "client", c.Remote(), "err", err, "code", "ZD-4001")
		a.countSessionless(err)
		a.meters.ConnectionRejected.Inc()
	}
	a.replica.Disconnected(c)
}

var (
	errNoSession = errors.New("no quorum agreed on its session in time")
	errStopping  = errors.New("the server is stopping")
)

// logEnd logs why a connection ended.
func (a *acceptor) logEnd(c *replica.Client, err error) {
	why := c.Ending()
	var size *jute.FrameSizeError
	switch {
	case why != "":
		a.clientLog.Info("closed a client connection", "client", c.Remote(), "session", replica.SessionText(c.Session()),
			"why", why)
	case errors.As(err, &size):
		a.clientLog.Warn("closed a client connection: the frame is malformed or too large", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "err", err, "code", "ZD-4002")
	case errors.Is(err, io.EOF):
		a.clientLog.Info("a client closed its connection", "client", c.Remote(), "session", replica.SessionText(c.Session()))
	default:
		a.clientLog.Info("a client connection ended", "client", c.Remote(), "session", replica.SessionText(c.Session()),
			"err", err)
	}
}

// turnedAway reports whether a new client is turned away because this server drains. If so, it logs that.
func (a *acceptor) turnedAway(nc net.Conn) bool {
	if a.drain.Draining() {
		a.clientLog.Info("a client was turned away: this server drains", "client", nc.RemoteAddr().String())
		a.meters.ConnectionRejected.Inc()
		return true
	}
	return false
}

// countSessionless counts a connection that timed out before it sent enough.
func (a *acceptor) countSessionless(err error) {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		a.meters.SessionlessExpired.Inc()
	}
}
