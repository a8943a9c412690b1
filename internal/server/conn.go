package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// Sizes of a connection's read buffer. An idle connection holds the smallest; a
// busy one grows to the largest, which one read of the socket can fill.
const (
	inputBytesMin = 512
	inputBytesMax = 64 << 10
	// inputQuietReads is how many small reads in a row give the memory back; a
	// read is small if it fills less than one part in inputQuietShare.
	inputQuietReads = 16
	inputQuietShare = 8
)

// serve is the life of one connection, on a goroutine of its own; secure says that
// it begins with a TLS handshake. What is done once returns before the first
// request is awaited, and few frames are below a read: then what an idle connection
// has on its stack fits into the smallest there is, which is half of its memory.
func (s *Server) serve(nc net.Conn, secure bool) {
	conn, c, in := s.open(nc, secure)
	if c != nil {
		in, err := s.handshake(conn, c, in)
		if err == nil {
			err = s.readRequests(conn, c, in)
		}
		s.ended(c, err)
		conn.Close() // above nc if that is TLS
	}
	nc.Close()
	s.forget(nc)
	s.wg.Done()
}

// open returns the client on a connection, what it sent so far, and the connection
// to go on with, which may be one of TLS above nc. It returns nil for a client if
// all is done.
func (s *Server) open(nc net.Conn, secure bool) (net.Conn, *client, []byte) {
	nc.SetReadDeadline(time.Now().Add(s.opt.SessionlessTimeout))
	var in []byte
	if !secure {
		if in = s.readHead(nc); in == nil {
			return nil, nil, nil
		}
		secure = s.opt.Secure.Unify && in[0] == tlsHandshakeRecord
	}
	if secure {
		return s.openSecure(nc, in)
	}
	if s.opt.Secure.TLS != nil {
		s.secure.countPlain(nc)
	}
	return nc, s.greet(nc, in, nil), in
}

// readHead returns the first bytes of a connection, enough to tell what it is; nil
// if they don't come.
func (s *Server) readHead(nc net.Conn) []byte {
	in, err := readTo(nc, make([]byte, 0, inputBytesMin), frameLengthSize)
	if err != nil {
		s.countSessionless(err)
		s.replica.clientLog.Debug("a connection closed before it sent anything", "client", nc.RemoteAddr().String(), "err", err)
		return nil
	}
	return in
}

// readTo reads until buf has at least n bytes.
func readTo(nc net.Conn, buf []byte, n int) ([]byte, error) {
	if cap(buf) < n {
		buf = append(make([]byte, 0, n), buf...)
	}
	for len(buf) < n {
		got, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		if err != nil && len(buf) < n {
			return nil, err
		}
	}
	return buf, nil
}

// helloSize returns the size of a connection's first frame, which begins with in,
// and whether that may be a connect request.
func helloSize(in []byte) (size int, ok bool) {
	size = int(int32(binary.BigEndian.Uint32(in)))
	return size, size >= 0 && size <= jute.ConnectRequestSizeMax
}

// greet returns the client of a connection that begins with in and has proved to
// be ids, nil for one that has proved nothing. A four-letter word is answered, and
// nil returned.
func (s *Server) greet(nc net.Conn, in []byte, ids []jute.ID) *client {
	if _, ok := helloSize(in); !ok {
		if word := string(in[:frameLengthSize]); isFourLetterWord(word) {
			s.fourLetterWord(nc, word, in[frameLengthSize:])
			return nil
		}
	}
	remote := nc.RemoteAddr().String()
	c := newClient(s.ids.take(), remote, addressID(remote), nil)
	c.acked = socket.AckedBy(below(nc))
	c.since = time.Now()
	c.wake = func() { go s.flush(nc, c) }
	if c.try = socket.TryWriter(nc); c.try != nil {
		c.push = func() { s.pushTo(nc, c) }
		c.wake = func() { s.pushers.add(c) }
	}
	if ids != nil {
		c.ids.Store(&ids)
	}
	return c
}

// handshake takes the connect request, which begins with in, and returns what
// came behind it.
func (s *Server) handshake(nc net.Conn, c *client, in []byte) ([]byte, error) {
	rest, err := readHello(nc, c, in)
	if err == nil {
		err = s.replica.connect(c, &c.hello, s.ids.take)
	}
	return append(in[:0], rest...), err
}

// readHello reads c's connect request, whose password aliases what was read, and
// returns what came behind it.
func readHello(nc net.Conn, c *client, in []byte) (rest []byte, err error) {
	size, ok := helloSize(in)
	if !ok {
		return nil, fmt.Errorf("its first frame has %d bytes, a connect request at most %d: this is no ZooKeeper client, or a four-letter word that does not exist", size, jute.ConnectRequestSizeMax)
	}
	size += frameLengthSize
	if in, err = readTo(nc, in, size); err != nil {
		return nil, fmt.Errorf("read the connect request: %w", err)
	}
	d := jute.NewDecoder(in[frameLengthSize:size])
	c.hello.Decode(d)
	if d.Err() != nil {
		return nil, fmt.Errorf("decode the connect request: %w", d.Err())
	}
	return in[size:], nil
}

// ended says why a connection ended, and forgets it.
func (s *Server) ended(c *client, err error) {
	if c.Established() {
		s.logEnd(c, err)
	} else {
		s.replica.clientLog.Warn("a connection was closed during its handshake", "client", c.remote, "err", err)
		s.countSessionless(err)
		s.replica.meters.connectionRejected.Inc()
	}
	s.replica.disconnected(c)
}

var (
	errNoSession = errors.New("no quorum agreed on its session in time")
	errStopping  = errors.New("the server is stopping")
)

// sessionBy is when c must have its session.
func (s *Server) sessionBy(c *client) time.Time {
	return c.since.Add(max(s.opt.SessionlessTimeout, time.Duration(c.timeout)*time.Millisecond))
}

// awaitSession waits until c is established, or closing without: then the loss of
// its socket doesn't show, as nobody reads it meanwhile.
func (s *Server) awaitSession(c *client) error {
	if c.Established() {
		return nil
	}
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for by := s.sessionBy(c); ; {
		select {
		case <-c.established:
			return nil
		case <-s.closing:
			return errStopping
		case now := <-look.C:
			if !now.Before(by) {
				return errNoSession
			}
			if why := c.ending(); why != "" {
				return refusal(why)
			}
		}
	}
}

// sessionLook is the pause between two looks at whether a connection that has yet
// to get its session is closing.
const sessionLook = 100 * time.Millisecond

// putOff moves the deadline that nc has since it was accepted and that is over
// now: most connections are established then and need none.
func (s *Server) putOff(nc net.Conn, c *client) error {
	by := s.sessionBy(c)
	switch {
	case c.Established():
		by = time.Time{}
	case !time.Now().Before(by):
		return errNoSession
	}
	return nc.SetReadDeadline(by)
}

// readRequests feeds what arrives, which begins with buf, to the replica until
// the connection ends. The first reads wait beside the log that attaches the
// session: what they bring waits for it.
func (s *Server) readRequests(nc net.Conn, c *client, buf []byte) error {
	quiet, n, attached := 0, len(buf), false
	c.input.Store(int64(cap(buf)))
	for {
		if n > 0 {
			if !attached {
				if err := s.awaitSession(c); err != nil {
					return err
				}
				attached = true
			}
			used, err := s.receiveAll(nc, c, buf)
			if err != nil {
				s.flushLast(nc, c)
				return err
			}
			full := len(buf) == cap(buf)
			buf = buf[:copy(buf, buf[used:])]
			switch {
			case full && (cap(buf) < inputBytesMax || len(buf) == cap(buf)):
				buf, quiet = grow(buf), 0
				c.input.Store(int64(cap(buf)))
			case len(buf) > 0 || n >= cap(buf)/inputQuietShare:
				quiet = 0
			default:
				if quiet++; quiet == inputQuietReads {
					c.quiet()
					if cap(buf) > inputBytesMin {
						buf = make([]byte, 0, inputBytesMin)
						c.input.Store(inputBytesMin)
					}
				}
			}
		}
		if s.flushOwn(nc, c) {
			return errClosing
		}
		var err error
		n, err = nc.Read(buf[len(buf):cap(buf)])
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			err = s.putOff(nc, c)
		}
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
	}
}

// grow returns a larger buffer with the same bytes: up to inputBytesMax by fours,
// beyond it (one large frame) by twos as its bytes arrive.
func grow(buf []byte) []byte {
	size := min(cap(buf)*4, inputBytesMax)
	if len(buf) >= size {
		size = cap(buf) * 2
	}
	return append(make([]byte, 0, size), buf...)
}

// flushOwn writes waiting output on the reader's goroutine, unless another one
// is at it, and reports whether the connection is to end.
func (s *Server) flushOwn(nc net.Conn, c *client) bool {
	c.mu.Lock()
	ended := c.closed || c.closing && len(c.out) == 0
	if c.flushing || len(c.out) == 0 && !c.postponed {
		flushing := c.flushing
		c.mu.Unlock()
		return ended && !flushing
	}
	c.flushing = true
	c.mu.Unlock()
	return s.flush(nc, c)
}

// flushLast writes waiting output before the reader gives the connection up; if
// another goroutine is at it, it waits for that one.
func (s *Server) flushLast(nc net.Conn, c *client) {
	if s.flushOwn(nc, c) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.flushing && !c.closed {
		c.room.Wait()
	}
}

// flush writes a client's output until there is none, and reports whether the
// connection was ended.
func (s *Server) flush(nc net.Conn, c *client) bool {
	out, sent, last := c.tryOutput()
	return s.flushFrom(nc, c, out, sent, last)
}

// pushTo is flush as far as that never blocks; a goroutine does what is left.
func (s *Server) pushTo(nc net.Conn, c *client) {
	if out, sent, last := c.tryOutput(); out != nil || last {
		go s.flushFrom(nc, c, out, sent, last)
	}
}

// tryOutput writes waiting output as far as that can't block. It returns what
// takeOutput does, and how much of out is written.
func (c *client) tryOutput() (out []byte, sent int, last bool) {
	out, last = c.takeOutput(nil)
	if out == nil || c.try == nil {
		return out, 0, last
	}
	if sent = c.try(out); sent == len(out) {
		out, last = c.takeOutput(out)
		sent = 0
	}
	return out, sent, last
}

// flushFrom goes on with what takeOutput returned, of which some is sent.
func (s *Server) flushFrom(nc net.Conn, c *client, out []byte, sent int, last bool) bool {
	for {
		if last {
			nc.Close()
			return true
		}
		if out == nil {
			return false
		}
		if now := time.Now(); c.writeBy.Sub(now) < s.opt.WriteTimeout/2 {
			// Not for each write: with thousands of connections the timers would
			// cost as much as what they guard.
			c.writeBy = now.Add(s.opt.WriteTimeout)
			nc.SetWriteDeadline(c.writeBy)
		}
		if _, err := nc.Write(out[sent:]); err != nil {
			c.closeAfter("writing to it failed: " + err.Error())
			nc.Close()
			c.mu.Lock()
			c.closed, c.flushing = true, false
			c.room.Broadcast()
			c.mu.Unlock()
			return true
		}
		out, last = c.takeOutput(out)
		sent = 0
	}
}

// logEnd says why a connection ended.
func (s *Server) logEnd(c *client, err error) {
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	var size *jute.FrameSizeError
	switch {
	case why != "":
		s.replica.clientLog.Info("closed a client connection", "client", c.remote, "session", sessionText(c.session), "why", why)
	case errors.As(err, &size):
		s.replica.clientLog.Warn("closed a client connection: the frame is malformed or too large", "client", c.remote, "session", sessionText(c.session), "err", err)
	case errors.Is(err, io.EOF):
		s.replica.clientLog.Info("a client closed its connection", "client", c.remote, "session", sessionText(c.session))
	default:
		s.replica.clientLog.Info("a client connection ended", "client", c.remote, "session", sessionText(c.session), "err", err)
	}
}
