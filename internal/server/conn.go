package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

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

// serveConn is the life of one connection, on a goroutine of its own.
func (s *Server) serveConn(nc net.Conn) {
	defer nc.Close()
	remote := nc.RemoteAddr().String()
	nc.SetReadDeadline(time.Now().Add(s.opt.SessionlessTimeout))
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		s.countSessionless(err)
		s.log.Debug("a connection closed before it sent anything", "client", remote, "err", err)
		return
	}
	if s.opt.Secure.TLS != nil {
		if s.opt.Secure.Unify && head[0] == tlsHandshakeRecord {
			s.serveSecure(&replayed{Conn: nc, head: head[:]})
			return
		}
		s.secure.countPlain(nc)
	}
	s.serveClient(nc, head, nil)
}

// serveClient goes on with a connection that began with head and has proved to
// be ids, which is nil for one that has proved nothing.
func (s *Server) serveClient(nc net.Conn, head [4]byte, ids []jute.ID) {
	remote := nc.RemoteAddr().String()
	if word := string(head[:]); isFourLetterWord(word) {
		s.fourLetterWord(nc, word)
		return
	}
	c := newClient(s.ids.take(), remote, addressID(nc.RemoteAddr()), nil)
	c.since = time.Now()
	c.wake = func() { go s.flush(nc, c) }
	if try := tryWriter(nc); try != nil {
		c.push = func() { s.pushTo(nc, c, try) }
	}
	if ids != nil {
		c.ids.Store(&ids)
	}
	if err := s.handshake(nc, c, int(int32(binary.BigEndian.Uint32(head[:])))); err != nil {
		s.log.Warn("a connection was closed during its handshake", "client", remote, "err", err)
		s.countSessionless(err)
		s.replica.meters.connectionRejected.Inc()
	} else {
		nc.SetReadDeadline(time.Time{})
		err := s.readRequests(nc, c)
		s.logEnd(c, err)
	}
	s.replica.disconnected(c)
}

// handshake reads the connect request, whose length was read already, and waits
// until the session is attached.
func (s *Server) handshake(nc net.Conn, c *client, size int) error {
	if size < 0 || size > jute.ConnectRequestSizeMax {
		return fmt.Errorf("its first frame has %d bytes, a connect request at most %d: this is no ZooKeeper client, or a four-letter word that does not exist", size, jute.ConnectRequestSizeMax)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(nc, frame); err != nil {
		return fmt.Errorf("read the connect request: %w", err)
	}
	var req jute.ConnectRequest
	d := jute.NewDecoder(frame)
	req.Decode(d)
	if d.Err() != nil {
		return fmt.Errorf("decode the connect request: %w", d.Err())
	}
	if err := s.replica.connect(c, &req, s.ids.take); err != nil {
		return err
	}
	patience := time.NewTimer(max(s.opt.SessionlessTimeout, time.Duration(c.timeout)*time.Millisecond))
	defer patience.Stop()
	select {
	case <-c.established:
		return nil
	case <-patience.C:
		return errors.New("no quorum agreed on its session in time")
	case <-s.closing:
		return errors.New("the server is stopping")
	}
}

// readRequests feeds what arrives to the replica until the connection ends.
func (s *Server) readRequests(nc net.Conn, c *client) error {
	buf := make([]byte, 0, inputBytesMin)
	quiet := 0
	for {
		if s.flushOwn(nc, c) {
			return errClosing
		}
		n, err := nc.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		used, err := s.replica.receive(c, buf, s.now())
		if err != nil {
			s.flushLast(nc, c)
			return err
		}
		full := len(buf) == cap(buf)
		buf = buf[:copy(buf, buf[used:])]
		switch {
		case full && (cap(buf) < inputBytesMax || len(buf) == cap(buf)):
			buf, quiet = grow(buf), 0
		case len(buf) > 0 || n >= cap(buf)/inputQuietShare:
			quiet = 0
		default:
			if quiet++; quiet == inputQuietReads {
				c.quiet()
				if cap(buf) > inputBytesMin {
					buf = make([]byte, 0, inputBytesMin)
				}
			}
		}
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
	if c.flushing || len(c.out) == 0 {
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
	out, last := c.takeOutput(nil)
	return s.flushFrom(nc, c, out, 0, last)
}

// pushTo is flush as far as try, which never blocks, can do it; a goroutine does
// what is left.
func (s *Server) pushTo(nc net.Conn, c *client, try func([]byte) int) {
	out, last := c.takeOutput(nil)
	sent := 0
	if out != nil {
		if sent = try(out); sent == len(out) {
			out, last = c.takeOutput(out)
			sent = 0
		}
	}
	if out != nil || last {
		go s.flushFrom(nc, c, out, sent, last)
	}
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
		s.log.Info("closed a client connection", "client", c.remote, "session", sessionText(c.session), "why", why)
	case errors.As(err, &size):
		s.log.Warn("closed a client connection: the frame is malformed or too large", "client", c.remote, "session", sessionText(c.session), "err", err)
	case errors.Is(err, io.EOF):
		s.log.Info("a client closed its connection", "client", c.remote, "session", sessionText(c.session))
	default:
		s.log.Info("a client connection ended", "client", c.remote, "session", sessionText(c.session), "err", err)
	}
}
