// Package floor implements a server that does only what any server must do: it reads requests, writes the bytes of
// writes to one file that it syncs in batches, and sends fixed replies. No server on this runtime can be much faster.
//
//	floor.go   clients and replies
//	log.go     the file; file_*.go the system calls for it
//	watch.go   watches that a getData sets and a setData fires
package floor

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// A Server keeps no znodes. It answers reads at once with fixed replies, and writes once their bytes are durable.
// Replies have the order of the requests, as clients expect of any server.
type Server struct {
	log      *batchLog
	value    []byte // of every znode
	children []byte // encoded child list of every znode
	sessions atomic.Int64
	watches  watchTable
}

// pending is a reply that waits for the log, or for an earlier reply that does.
type pending struct {
	durable uint64 // log position that it waits for
	size    int    // of its frame
	changes string // path whose watchers are notified first; "" if there can't be any
}

// client is one connection.
type client struct {
	s   *Server
	net net.Conn
	in  *wire.Conn // for its reading half

	mu      sync.Mutex
	out     []byte    // replies that may be sent
	waiting []pending // replies that may not be sent yet, oldest first
	held    []byte    // their frames
}

// Open creates the log's file and a server that stores nothing else: every znode has size bytes and the given number of
// children. If filled is set, the file is filled first.
func Open(path string, filled bool, size, children int) (*Server, error) {
	log, err := openLog(path, filled)
	if err != nil {
		return nil, err
	}
	names := make([]string, children)
	for i := range names {
		names[i] = wire.NumberedPath("k", i)
	}
	return &Server{log: log, value: make([]byte, size), children: jute.AppendStrings(nil, names)}, nil
}

// Close closes the log. It must be called after Serve has returned.
func (s *Server) Close() { s.log.close() }

// Serve accepts clients until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(s.log.syncLoop(ctx)) })
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		n, err := l.Accept()
		if err != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		wg.Go(func() {
			c := &client{s: s, net: n, in: wire.Attach(n, wire.LoadBuffer)}
			stop := context.AfterFunc(ctx, func() { n.Close() })
			defer stop()
			defer n.Close()
			c.readLoop() // ends when the client disconnects
			s.log.forget(c)
		})
	}
}

// readLoop serves one client until it disconnects. The caller ignores the error.
func (c *client) readLoop() error {
	if err := c.welcome(); err != nil {
		return err
	}
	for {
		f, err := c.in.Take()
		if err != nil {
			return err
		}
		if f == nil {
			if err := c.flush(); err != nil {
				return err
			}
			if err := c.in.Fill(); err != nil {
				return err
			}
			continue
		}
		if len(f) < jute.RequestHeaderSize {
			return jute.ErrTruncated
		}
		if err := c.answer(int32(binary.BigEndian.Uint32(f)), jute.Op(binary.BigEndian.Uint32(f[4:])), f); err != nil {
			return err
		}
		if jute.Op(binary.BigEndian.Uint32(f[4:])) == jute.OpCloseSession {
			return c.flush()
		}
	}
}

// welcome does the handshake. Opening a session is a write.
func (c *client) welcome() error {
	f, err := c.in.Frame()
	if err != nil {
		return err
	}
	var req jute.ConnectRequest
	d := jute.NewDecoder(f)
	if req.Decode(d); d.Err() != nil {
		return d.Err()
	}
	id := req.SessionID
	if id == 0 {
		id = c.s.sessions.Add(1)
	}
	resp := jute.ConnectResponse{
		Timeout: req.Timeout, SessionID: id, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: req.HasReadOnly,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.held)
	c.held = jute.AppendFrame(c.held, resp.Append)
	c.hold(at, c.s.log.append(f, c), "")
	return nil
}

// answer replies to one request, now or once it is durable.
func (c *client) answer(xid int32, op jute.Op, f []byte) (err error) {
	body := f[jute.RequestHeaderSize:]
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.held)
	if op == jute.OpGetData && len(body) > 0 && body[len(body)-1] != 0 {
		c.s.watches.add(pathOf(body), c)
	}
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpPing, jute.OpSync,
		jute.OpCloseSession, jute.OpSetWatches:
		if len(c.waiting) == 0 {
			c.out = c.appendRead(c.out, xid, op, body)
			return nil
		}
		c.held = c.appendRead(c.held, xid, op, body)
		c.hold(at, 0, "")
	default:
		if c.held, err = appendWrite(c.held, xid, op, body); err != nil {
			return err
		}
		path := ""
		if op == jute.OpSetData && c.s.watches.any() {
			path = pathOf(body)
		}
		c.hold(at, c.s.log.append(f, c), path)
	}
	return nil
}

// hold queues the reply that starts at offset at of held until the log is durable up to a position. The caller holds
// mu.
func (c *client) hold(at int, durable uint64, changes string) {
	c.waiting = append(c.waiting, pending{durable, len(c.held) - at, changes})
}

// release moves the replies that no longer wait to out, and notifies the watchers. The caller holds mu.
func (c *client) release(durable uint64) {
	n, size := 0, 0
	for n < len(c.waiting) && c.waiting[n].durable <= durable {
		if path := c.waiting[n].changes; path != "" {
			c.s.watches.fire(path)
		}
		size += c.waiting[n].size
		n++
	}
	c.out = append(c.out, c.held[:size]...)
	c.held = append(c.held[:0], c.held[size:]...)
	c.waiting = append(c.waiting[:0], c.waiting[n:]...)
}

// wake sends the replies that are ready after the log's progress.
func (c *client) wake(durable uint64) {
	c.mu.Lock()
	c.release(durable)
	c.mu.Unlock()
	if c.flush() != nil {
		c.net.Close() // this ends its reader
	}
}

func (c *client) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// beginReply appends the header of a successful reply.
func beginReply(b []byte, xid int32) ([]byte, int) {
	b, start := jute.BeginFrame(b)
	h := jute.ReplyHeader{Xid: xid, Zxid: 1}
	return h.Append(b), start
}

// appendRead appends the fixed reply to a read.
func (c *client) appendRead(b []byte, xid int32, op jute.Op, body []byte) []byte {
	b, start := beginReply(b, xid)
	var stat jute.Stat
	switch op {
	case jute.OpGetData:
		b = stat.Append(jute.AppendBuffer(b, c.s.value))
	case jute.OpExists:
		b = stat.Append(b)
	case jute.OpGetChildren:
		b = append(b, c.s.children...)
	case jute.OpGetChildren2:
		b = stat.Append(append(b, c.s.children...))
	case jute.OpSync:
		b = append(b, body...) // the reply is the path
	}
	return jute.EndFrame(b, start)
}

// appendWrite appends the reply to a successful write.
func appendWrite(b []byte, xid int32, op jute.Op, body []byte) ([]byte, error) {
	b, start := beginReply(b, xid)
	var stat jute.Stat
	var d jute.Decoder
	d.Reset(body)
	switch op {
	case jute.OpCreate:
		b = jute.AppendString(b, d.String())
	case jute.OpSetData:
		b = stat.Append(b)
	case jute.OpMulti:
		ops, err := jute.DecodeMulti(&d)
		if err != nil {
			return nil, err
		}
		for _, o := range ops {
			r := jute.MultiResult{Op: o.Op, Path: o.Path}
			b = r.Append(b)
		}
		b = jute.AppendMultiEnd(b)
	}
	return jute.EndFrame(b, start), d.Err()
}
