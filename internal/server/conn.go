package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// Sizes of a connection's read buffer. An idle connection holds the smallest; a
// busy one grows to the largest, which one read of the socket can fill.
const (
	// frameHead is what a frame has before its bytes: their number.
	frameHead     = 4
	inputBytesMin = 512
	inputBytesMax = 64 << 10
	// inputQuietReads is how many small reads in a row give the memory back; a
	// read is small if it fills less than one part in inputQuietShare.
	inputQuietReads = 16
	inputQuietShare = 8
)

// serve is the life of one connection, on a goroutine of its own; secure says that
// it begins with a TLS handshake. Work that is done once returns before the first
// request is awaited, and few frames are below a read: so the stack of an idle connection
// is the smallest there is, which is half of its memory.
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
func (s *Server) open(nc net.Conn, secure bool) (net.Conn, *replica.Client, []byte) {
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
	in, err := readTo(nc, make([]byte, 0, inputBytesMin), frameHead)
	if err != nil {
		s.countSessionless(err)
		s.clientLog.Debug("a connection closed before it sent anything", "client", nc.RemoteAddr().String(), "err", err)
		return nil
	}
	return in
}

// readTo reads until buf has at least n bytes. It makes room for what has come and as much again, not
// for n: a client may announce more than it ever sends.
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

// helloSize returns the size of a connection's first frame, which begins with in,
// and whether that may be a connect request.
func helloSize(in []byte) (size int, ok bool) {
	size = int(int32(binary.BigEndian.Uint32(in)))
	return size, size >= 0 && size <= jute.ConnectRequestSizeMax
}

// greet returns the client of a connection that begins with in and has proved to
// be ids, nil for one that has proved nothing. A four-letter word is answered, and
// nil returned.
func (s *Server) greet(nc net.Conn, in []byte, ids []jute.ID) *replica.Client {
	if _, ok := helloSize(in); !ok {
		if word := string(in[:frameHead]); fourletter.Is(word) {
			s.fourLetterWord(nc, word, in[frameHead:])
			return nil
		}
	}
	if s.turnedAway(nc) {
		return nil
	}
	remote := nc.RemoteAddr().String()
	c := replica.NewClient(s.newID(), remote, addressID(remote), nil)
	c.Acked = socket.AckedBy(below(nc))
	c.Abort = func() { go below(nc).Close() }
	c.Since = time.Now()
	c.Wake = func() { go s.flush(nc, c) }
	if c.Try = socket.TryWriter(nc); c.Try != nil {
		c.Push = func() { s.pushTo(nc, c) }
		c.Wake = func() { s.flushPool.add(c) }
	}
	c.Withdrawn = func() string { return s.withdrawn(c, nil) }
	if ids != nil {
		c.Identify(ids)
	}
	return c
}

// handshake takes the connect request, which begins with in, and returns what
// came behind it.
func (s *Server) handshake(nc net.Conn, c *replica.Client, in []byte) ([]byte, error) {
	var hello jute.ConnectRequest
	rest, err := readHello(nc, &hello, in)
	if err == nil {
		err = s.replica.Connect(c, &hello, s.newID)
	}
	return append(in[:0], rest...), err
}

// readHello reads a connect request, whose password aliases what was read, and
// returns what came behind it.
func readHello(nc net.Conn, hello *jute.ConnectRequest, in []byte) (rest []byte, err error) {
	size, ok := helloSize(in)
	if !ok {
		return nil, fmt.Errorf("its first frame has %d bytes, a connect request at most %d: this is no ZooKeeper client, or a four-letter word that does not exist", size, jute.ConnectRequestSizeMax)
	}
	size += frameHead
	if in, err = readTo(nc, in, size); err != nil {
		return nil, fmt.Errorf("read the connect request: %w", err)
	}
	d := jute.NewDecoder(in[frameHead:size])
	hello.Decode(d)
	if d.Err() != nil {
		return nil, fmt.Errorf("decode the connect request: %w", d.Err())
	}
	return in[size:], nil
}

// ended says why a connection ended, and forgets it.
func (s *Server) ended(c *replica.Client, err error) {
	if c.Established() {
		s.logEnd(c, err)
	} else {
		s.clientLog.Warn("a connection was closed during its handshake", "client", c.Remote(), "err", err, "code", "ZD-4001")
		s.countSessionless(err)
		s.meters.ConnectionRejected.Inc()
	}
	s.replica.Disconnected(c)
}

var (
	errNoSession = errors.New("no quorum agreed on its session in time")
	errStopping  = errors.New("the server is stopping")
)

// sessionBy is when c must have its session.
func (s *Server) sessionBy(c *replica.Client) time.Time {
	return c.Since.Add(max(s.opt.SessionlessTimeout, time.Duration(c.Timeout())*time.Millisecond))
}

// awaitSession waits until c is established. It looks whether c is closing: nobody reads
// its socket meanwhile, so its loss doesn't show.
func (s *Server) awaitSession(c *replica.Client) error {
	if c.Established() {
		return nil
	}
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for by := s.sessionBy(c); ; {
		select {
		case <-c.Answered():
			return nil
		case <-s.closing:
			return errStopping
		case now := <-look.C:
			if !now.Before(by) {
				return errNoSession
			}
			if why := c.Ending(); why != "" {
				return errors.New(why)
			}
		}
	}
}

// sessionLook is the pause between two looks at whether a connection that has yet
// to get its session is closing.
const sessionLook = 100 * time.Millisecond

// extendDeadline renews the expired handshake deadline of nc, or removes it if c is
// established by now, as most are.
func (s *Server) extendDeadline(nc net.Conn, c *replica.Client) error {
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
func (s *Server) readRequests(nc net.Conn, c *replica.Client, buf []byte) error {
	quiet, n, attached := 0, len(buf), false
	c.NoteInput(cap(buf))
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
				c.NoteInput(cap(buf))
			case len(buf) > 0 || n >= cap(buf)/inputQuietShare:
				quiet = 0
			default:
				if quiet++; quiet == inputQuietReads {
					c.Quiet()
					if cap(buf) > inputBytesMin {
						buf = make([]byte, 0, inputBytesMin)
						c.NoteInput(inputBytesMin)
					}
				}
			}
		}
		if s.flushOwn(nc, c) {
			return replica.ErrClosing
		}
		var err error
		n, err = nc.Read(buf[len(buf):cap(buf)])
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			err = s.extendDeadline(nc, c)
		}
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
	}
}

const untoldPause = 2 * time.Millisecond // between two looks at whether the client was told

// receiveAll brings the replica what arrived on a connection.
func (s *Server) receiveAll(nc net.Conn, c *replica.Client, in []byte) (used int, err error) {
	now := s.now()
	begun := now
	defer func() { s.meters.Stages.Decode.Observe(s.now() - begun) }()
	for {
		n, err := s.replica.Receive(c, in[used:], now)
		used += n
		if !errors.Is(err, replica.ErrUntold) && !errors.Is(err, replica.ErrPaced) {
			return used, err
		}
		if s.flushOwn(nc, c) {
			return used, replica.ErrClosing
		}
		pause := untoldPause
		if errors.Is(err, replica.ErrPaced) {
			pause = c.Pause()
		}
		if !s.pause(pause) {
			return used, errStopping // a connection that the server has closed is never told anything
		}
		now = s.now()
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
func (s *Server) flushOwn(nc net.Conn, c *replica.Client) bool {
	begun, ended := c.BeginFlush()
	if begun {
		return s.flush(nc, c)
	}
	return ended
}

// flushLast writes waiting output before the reader gives the connection up; if
// another goroutine is at it, it waits for that one.
func (s *Server) flushLast(nc net.Conn, c *replica.Client) {
	if !s.flushOwn(nc, c) {
		c.AwaitFlush()
	}
}

// flush writes a client's output until there is none, and reports whether the
// connection was ended.
func (s *Server) flush(nc net.Conn, c *replica.Client) bool {
	out, sent, last := s.tryOutput(c)
	return s.flushFrom(nc, c, out, sent, last)
}

// pushTo is flush as far as that never blocks; a goroutine does what is left.
func (s *Server) pushTo(nc net.Conn, c *replica.Client) {
	if out, sent, last := s.tryOutput(c); out != nil || last {
		go s.flushFrom(nc, c, out, sent, last)
	}
}

// sendEvery is how many writes to clients there are for each whose time is measured:
// asking the clock twice would cost some percent of a short one.
const sendEvery = 16

// tryOutput is c.TryOutput, whose time it measures now and then.
func (s *Server) tryOutput(c *replica.Client) (out []byte, sent int, last bool) {
	if s.sends.Add(1)%sendEvery != 0 {
		out, sent, last = c.TryOutput()
		s.delivered(c)
		return out, sent, last
	}
	begun := s.now()
	out, sent, last = c.TryOutput()
	s.meters.Stages.Send.Observe(s.now() - begun)
	s.delivered(c)
	return out, sent, last
}

// delivered measures the delivery of events; what is left to be written counts as delivered.
func (s *Server) delivered(c *replica.Client) {
	if at := c.Told(); at != 0 {
		s.meters.Stages.Watch.Observe(s.now() - at)
	}
}

// flushFrom goes on with output that TakeOutput returned and that is partly sent.
func (s *Server) flushFrom(nc net.Conn, c *replica.Client, out []byte, sent int, last bool) bool {
	for {
		if last {
			nc.Close()
			return true
		}
		if out == nil {
			return false
		}
		if now := time.Now(); c.WriteBy.Sub(now) < s.opt.WriteTimeout/2 {
			// Not for each write: with thousands of connections the timers would
			// cost as much as what they guard.
			c.WriteBy = now.Add(s.opt.WriteTimeout)
			nc.SetWriteDeadline(c.WriteBy)
		}
		if _, err := nc.Write(out[sent:]); err != nil {
			c.CloseAfter("writing to it failed: " + err.Error())
			nc.Close()
			c.Lost()
			return true
		}
		out, last = c.TakeOutput(out)
		sent = 0
	}
}

// logEnd says why a connection ended.
func (s *Server) logEnd(c *replica.Client, err error) {
	why := c.Ending()
	var size *jute.FrameSizeError
	switch {
	case why != "":
		s.clientLog.Info("closed a client connection", "client", c.Remote(), "session", replica.SessionText(c.Session()), "why", why)
	case errors.As(err, &size):
		s.clientLog.Warn("closed a client connection: the frame is malformed or too large", "client", c.Remote(), "session", replica.SessionText(c.Session()), "err", err, "code", "ZD-4002")
	case errors.Is(err, io.EOF):
		s.clientLog.Info("a client closed its connection", "client", c.Remote(), "session", replica.SessionText(c.Session()))
	default:
		s.clientLog.Info("a client connection ended", "client", c.Remote(), "session", replica.SessionText(c.Session()), "err", err)
	}
}
