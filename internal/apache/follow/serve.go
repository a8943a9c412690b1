package follow

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// Limits on what clients may use.
const (
	clientsMax     = 1000            // connections
	requestMax     = 1 << 20         // bytes of a request, as jute.maxbuffer
	outputMax      = 8 << 20         // bytes of replies that a client hasn't read
	connectTimeout = 5 * time.Second // until a connection has a session
	watchesMax     = 10_000          // paths that a client watches
)

// The bounds of session timeouts.
const (
	timeoutMin = 4 * time.Second
	timeoutMax = 60 * time.Second
)

// A Server answers clients' reads from a follower, as an Apache server without quorum does: only clients that
// accept a read-only server get a session, and writes and sync are refused.
type Server struct {
	f        *Follower
	registry *auth.Registry
	throttle auth.Throttle
	secret   [32]byte

	mu      sync.Mutex // locked after the follower's
	watches *watch.Table
	clients map[int64]*client
	next    int64
	fired   []int64
}

// NewServer returns a server for a follower that doesn't run yet.
func NewServer(f *Follower, o auth.Options) (*Server, error) {
	registry, err := auth.New(o)
	if err != nil {
		return nil, err
	}
	s := &Server{f: f, registry: registry, watches: watch.New(), clients: map[int64]*client{}}
	if _, err := rand.Read(s.secret[:]); err != nil {
		return nil, err
	}
	f.clients, f.state.Changed = s, s.changed
	return s, nil
}

// Serve accepts connections until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { socket.CloseListener(l) })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			s.drop()
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept clients: %w", err)
		}
		c := s.admit(conn)
		if c == nil {
			conn.Close()
			continue
		}
		go c.serve()
	}
}

// admit registers a client, or returns nil if there are too many.
func (s *Server) admit(conn net.Conn) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) == clientsMax {
		return nil
	}
	s.next++
	c := &client{s: s, conn: conn, id: s.next}
	c.ready.L = &c.mu
	if host, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.address = auth.AddressID(host.IP, host.Zone)
		c.ids = []jute.ID{c.address}
	}
	s.clients[c.id] = c
	return c
}

// drop closes all connections. Clients reconnect, and say which zxid they have seen.
func (s *Server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.conn.Close()
	}
}

// changed notifies the clients that watch a path. The caller holds the follower's lock.
func (s *Server) changed(event jute.EventType, path string, zxid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fired = s.watches.Trigger(s.fired[:0], event, path)
	for _, id := range s.fired {
		if c := s.clients[id]; c != nil {
			c.notify(event, path, zxid)
		}
	}
}

func (s *Server) leave(c *client) {
	s.mu.Lock()
	delete(s.clients, c.id)
	s.watches.RemoveWatcher(c.id)
	s.mu.Unlock()
	c.conn.Close()
}

// password returns the password of a session that was created here.
func (s *Server) password(session int64) (p [jute.PasswdSize]byte) {
	m := hmac.New(sha256.New, s.secret[:])
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(session)))
	copy(p[:], m.Sum(nil))
	return p
}

// A client is one connection.
type client struct {
	s       *Server
	conn    net.Conn
	id      int64
	address jute.ID
	ids     []jute.ID
	session int64
	timeout time.Duration

	mu    sync.Mutex
	ready sync.Cond
	out   []byte
	end   bool // nothing more will be written
}

func (c *client) serve() {
	defer c.s.leave(c)
	if err := c.begin(); err != nil {
		return
	}
	written := make(chan struct{})
	go func() {
		c.write()
		close(written)
	}()
	c.read()
	c.mu.Lock()
	c.end = true
	c.ready.Broadcast()
	c.mu.Unlock()
	<-written
}

// errRefused ends a connection without an answer, so that the client tries the next server.
var errRefused = errors.New("the client is refused")

// begin answers a four-letter word, or creates a session.
func (c *client) begin() error {
	if err := c.conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return err
	}
	if reply, ok := c.s.f.word(string(head[:])); ok {
		_, err := io.WriteString(c.conn, reply)
		return errors.Join(err, errRefused)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 1<<10 {
		return errRefused
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return err
	}
	var req jute.ConnectRequest
	var d jute.Decoder
	d.Reset(b)
	req.Decode(&d)
	if d.Err() != nil {
		return d.Err()
	}
	f := c.s.f
	f.mu.RLock()
	zxid, live := f.state.Zxid, f.at.Live
	known, ok := f.state.Sessions[req.SessionID]
	f.mu.RUnlock()
	if !req.ReadOnly || req.LastZxidSeen > zxid || !live && zxid == 0 {
		return errRefused
	}
	c.session = req.SessionID
	c.timeout = min(max(time.Duration(req.Timeout)*time.Millisecond, timeoutMin), timeoutMax)
	res := jute.ConnectResponse{ReadOnly: true, HasReadOnly: req.HasReadOnly}
	var passwd [jute.PasswdSize]byte
	switch own := c.s.password(req.SessionID); {
	case req.SessionID == 0:
		var random [8]byte
		if _, err := rand.Read(random[:]); err != nil {
			return err
		}
		c.session = f.o.ID<<56 | int64(binary.BigEndian.Uint64(random[:])>>8) | 1
		passwd = c.s.password(c.session)
	case hmac.Equal(own[:], req.Passwd):
		passwd = own
	case ok && hmac.Equal(passwdOf(req.SessionID), req.Passwd):
		passwd, c.timeout = [jute.PasswdSize]byte(req.Passwd), time.Duration(known)*time.Millisecond
	default: // expired
		_, err := c.conn.Write(jute.AppendFrame(nil,
			(&jute.ConnectResponse{HasReadOnly: req.HasReadOnly, Passwd: passwd[:]}).Append))
		return errors.Join(err, errRefused)
	}
	res.SessionID, res.Timeout, res.Passwd = c.session, int32(c.timeout/time.Millisecond), passwd[:]
	_, err := c.conn.Write(jute.AppendFrame(nil, res.Append))
	return errors.Join(err, c.conn.SetDeadline(time.Time{}))
}

func passwdOf(session int64) []byte {
	p := files.Passwd(session)
	return p[:]
}

// write writes queued bytes until the connection ends.
func (c *client) write() {
	var b []byte
	for {
		c.mu.Lock()
		for len(c.out) == 0 && !c.end {
			c.ready.Wait()
		}
		b, c.out = c.out, b[:0]
		end := c.end
		c.mu.Unlock()
		if len(b) > 0 {
			err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
			if err == nil {
				_, err = c.conn.Write(b)
			}
			if err != nil {
				c.conn.Close()
				return
			}
		} else if end {
			return
		}
	}
}

// put queues bytes, unless the client reads too slowly: then its connection ends.
func (c *client) put(frame func([]byte) []byte) {
	c.mu.Lock()
	c.out = frame(c.out)
	if len(c.out) > outputMax {
		c.out = nil
		c.conn.Close()
	}
	c.ready.Broadcast()
	c.mu.Unlock()
}

func (c *client) notify(event jute.EventType, path string, zxid int64) {
	e := jute.WatcherEvent{Type: event, State: jute.StateSyncConnected, Path: path}
	c.put(func(b []byte) []byte {
		return jute.AppendReply(b, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}, e.Append)
	})
}

// read answers requests until the client is silent for its session timeout, or closes.
func (c *client) read() {
	var buf []byte
	for {
		if err := c.conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
			return
		}
		var err error
		if buf, err = jute.ReadFrame(c.conn, buf, requestMax); err != nil {
			return
		}
		var d jute.Decoder
		d.Reset(buf)
		var h jute.RequestHeader
		h.Decode(&d)
		if d.Err() != nil || !c.answer(h, &d) {
			return
		}
	}
}
