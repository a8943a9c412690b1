package zk

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// readBuffer is the size of the read buffer. It holds the replies to a full window of small requests. A frame that fits
// is decoded in place.
const readBuffer = 64 << 10

// A link is one connection after its handshake: a frame reader, which belongs to the session's run loop, and the fields
// that the writer needs. It knows nothing about requests.
type link struct {
	conn     net.Conn
	server   string
	readOnly bool
	timing   timing
	in       *bufio.Reader
	since    time.Time    // when the link was made
	heard    atomic.Int64 // when bytes last arrived, in nanoseconds after since

	kick chan struct{} // holds a token when the idle writer has work
	dead chan struct{} // closed when the link is closed

	once sync.Once
	why  error // why the link was closed; read it after dead is closed
}

func newLink(conn net.Conn, server string, t timing) *link {
	l := &link{
		conn: conn, server: server, timing: t, since: time.Now(), kick: make(chan struct{}, 1), dead: make(chan struct{}),
	}
	l.in = bufio.NewReaderSize(l, readBuffer)
	return l
}

// lastHeard returns when bytes last arrived. The result has a monotonic reading, so a step of the machine's clock
// doesn't change it.
func (l *link) lastHeard() time.Time { return l.since.Add(time.Duration(l.heard.Load())) }

// close closes the link for the reason why. Only the first reason is kept.
func (l *link) close(why error) {
	l.once.Do(func() {
		l.why = why
		close(l.dead)
		l.conn.Close()
	})
}

// Read reads from the connection for the link's buffered reader. It fails if nothing arrives within the read timeout.
func (l *link) Read(p []byte) (int, error) {
	l.conn.SetReadDeadline(time.Now().Add(l.timing.read)) // if this fails, so does Read, with a better error
	n, err := l.conn.Read(p)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.since)))
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		err = fmt.Errorf("nothing heard for %v", l.timing.read)
	}
	return n, err
}

// write sends b within the read timeout.
func (l *link) write(b []byte) error {
	l.conn.SetWriteDeadline(time.Now().Add(l.timing.read)) // if this fails, so does Write
	_, err := l.conn.Write(b)
	return err
}

// nextFrame returns the next frame's payload, and whether the caller owns it. If not, the payload is valid until skip
// is called. The caller must call skip in both cases.
func (l *link) nextFrame(limit int) (frame []byte, owned bool, err error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return nil, false, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n >= 0 && n <= limit && n+4 <= l.in.Size() {
		frame, err := l.in.Peek(4 + n)
		if err != nil {
			return nil, false, err
		}
		return frame[4:], false, nil
	}
	frame, err = jute.ReadFrame(l.in, nil, limit)
	return frame, true, err
}

// skip releases a frame that nextFrame returned.
func (l *link) skip(frame []byte, owned bool) {
	if !owned {
		l.in.Discard(4 + len(frame)) // can't fail: the bytes were peeked
	}
}

// timing holds the durations derived from a session timeout. The fractions are Apache's.
type timing struct {
	session time.Duration
	connect time.Duration // bounds one attempt with its handshake: the timeout divided by the number of servers
	read    time.Duration // the connection is closed after this silence of the server: 2/3
	ping    time.Duration // the client pings after this silence of its own
	expiry  time.Duration // the session is abandoned after this silence of all servers: 4/3
}

// connectMin is the least time for an attempt, for lists with many servers.
const connectMin = 100 * time.Millisecond

// pingMax bounds the time between pings for long session timeouts.
const pingMax = 10 * time.Second

func timingOf(session time.Duration, servers int) timing {
	t := timing{session: session}
	t.connect = max(session/time.Duration(max(servers, 1)), connectMin)
	t.read = session / 3 * 2
	// Half the time that the server may be silent, less a margin for the network.
	t.ping = min(t.read/2-min(t.read/8, time.Second), pingMax)
	t.expiry = session / 3 * 4
	return t
}

// dial opens a connection to server at addr, with TLS if configured.
func dial(ctx context.Context, o *Options, server, addr string) (net.Conn, error) {
	conn, err := o.Dial(ctx, "tcp", addr)
	if err != nil || o.TLSConfig == nil && o.GetTLSConfig == nil {
		return conn, err
	}
	config := o.TLSConfig
	if o.GetTLSConfig != nil {
		if config, err = o.GetTLSConfig(); err != nil {
			conn.Close()
			return nil, fmt.Errorf("TLS configuration: %w", err)
		}
	}
	if config = config.Clone(); config == nil {
		config = new(tls.Config)
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
		if err := checkSRVHost(o.SRV, config.ServerName); err != nil && !config.InsecureSkipVerify {
			conn.Close()
			return nil, err
		}
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

// errRejected says that the server doesn't know the requested session.
var errRejected = errors.New("the server doesn't know the session")

// longAgo is a deadline that ends reads and writes at once.
var longAgo = time.Unix(1, 0)

// handshake opens or resumes a session on conn. It returns when ctx ends.
func handshake(ctx context.Context, conn net.Conn, req *jute.ConnectRequest) (jute.ConnectResponse, error) {
	var res jute.ConnectResponse
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })()
	if _, err := conn.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		return res, fmt.Errorf("send the handshake: %w", err)
	}
	// Read without a buffer, since bytes after the first frame belong to the link's reader.
	frame, err := jute.ReadFrame(conn, nil, jute.ConnectRequestSizeMax)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return res, fmt.Errorf("await the handshake's answer: %w", err)
	}
	var d jute.Decoder
	d.Reset(frame)
	res.Decode(&d)
	switch {
	case d.Err() != nil:
		return res, fmt.Errorf("the handshake's answer: %w", d.Err())
	case res.Timeout <= 0:
		return res, errRejected
	case len(res.Passwd) != jute.PasswdSize || res.SessionID == 0:
		return res, fmt.Errorf("the handshake's answer makes no sense: session 0x%x, password of %d bytes", res.SessionID,
			len(res.Passwd))
	case req.SessionID != 0 && res.SessionID != req.SessionID:
		return res, fmt.Errorf("the handshake's answer is for session 0x%x, we asked for 0x%x", res.SessionID, req.SessionID)
	}
	return res, nil
}
