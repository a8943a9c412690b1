package server

import (
	"crypto/tls"
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

// Sizes of a connection's read buffer. An idle connection has the smallest; a busy one's grows to
// the largest, which a single read of the socket can fill.
const (
	// frameHead is the size of a frame's head, which holds the number of bytes that follow.
	frameHead     = 4
	inputBytesMin = 512
	inputBytesMax = 64 << 10
	// inputQuietReads is how many small reads in a row release the memory; a read is small if it fills
	// less than one part in inputQuietShare of the buffer.
	inputQuietReads = 16
	inputQuietShare = 8
)

// serve handles one connection from beginning to end, on goroutines that follow one another; secure
// says that the connection begins with a TLS handshake. A goroutine that has done one-time work ends
// where the client has to be waited for, and another one waits, with few stack frames below the read:
// Go's stacks begin at 2 KiB, double, and hardly ever shrink, and an idle connection has little
// besides its stack.
func (s *Server) serve(nc net.Conn, secure bool) {
	nc.SetReadDeadline(time.Now().Add(s.opt.SessionlessTimeout))
	if secure {
		s.secureConn(nc, nil)
	} else if in := s.readHead(nc); in != nil {
		s.open(nc, in)
	} else {
		s.done(nc)
	}
}

// open goes on with a connection whose first bytes are in.
//
//go:noinline
func (s *Server) open(nc net.Conn, in []byte) {
	if s.opt.Secure.Unify && in[0] == tlsHandshakeRecord {
		s.secureConn(nc, in)
		return
	}
	if s.opt.Secure.TLS != nil {
		s.secure.countPlain(nc)
	}
	if c := s.greet(nc, in, nil); c != nil {
		s.awaitHello(nc, nc, c, in)
	} else {
		s.done(nc)
	}
}

// awaitHello goes on with a connection that has a client. conn is what to read from and write to,
// which may be a TLS connection on top of nc.
func (s *Server) awaitHello(nc, conn net.Conn, c *replica.Client, in []byte) {
	if size, ok := helloSize(in); ok && len(in) < frameHead+size {
		go s.attach(nc, conn, c, in)
		return
	}
	s.attach(nc, conn, c, in)
}

// attach reads the connect request and processes it.
func (s *Server) attach(nc, conn net.Conn, c *replica.Client, in []byte) {
	in, err := s.handshake(conn, c, in)
	if err == nil {
		s.known(nc)
		go s.serveClient(nc, conn, c, in)
		return
	}
	s.end(nc, conn, c, err)
}

// serveClient takes requests until the connection ends.
func (s *Server) serveClient(nc, conn net.Conn, c *replica.Client, in []byte) {
	s.end(nc, conn, c, s.readRequests(conn, c, in))
}

// end ends a connection that has a client.
func (s *Server) end(nc, conn net.Conn, c *replica.Client, err error) {
	s.ended(c, err)
	conn.Close()
	s.done(nc)
}

// done is the end of every connection.
func (s *Server) done(nc net.Conn) {
	nc.Close()
	s.forget(nc)
	s.wg.Done()
}

// readHead returns the first bytes of a connection, enough to tell its protocol, or nil if they
// don't arrive.
func (s *Server) readHead(nc net.Conn) []byte {
	in, err := readTo(nc, make([]byte, 0, inputBytesMin), frameHead)
	if err != nil {
		s.saidNothing(nc, err)
		return nil
	}
	return in
}

// saidNothing notes that a connection has ended without its first bytes.
//
//go:noinline
func (s *Server) saidNothing(nc net.Conn, err error) {
	s.countSessionless(err)
	s.clientLog.Debug("a connection closed before it sent anything", "client", nc.RemoteAddr().String(), "err", err)
}

// readTo reads until buf has at least n bytes. It grows the buffer in proportion to what has
// arrived, rather than to n: a client may announce more than it ever sends.
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

// greet returns a client for a connection whose input begins with in. proof is what the connection
// has proved, or nil for nothing. If the input is a four-letter word, greet answers it
// and returns nil.
func (s *Server) greet(nc net.Conn, in []byte, proof *auth.Proof) *replica.Client {
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
	k := &clientSocket{s: s, nc: nc, acked: socket.AckedBy(socket.Below(nc)), try: socket.TryWriter(nc)}
	c := replica.NewClient(s.newID(), remote, addressID(remote), k)
	k.c = c
	c.Since = time.Now()
	if proof != nil {
		c.Prove(proof)
	}
	return c
}

// handshake processes the connect request, which begins with in, and returns the input that
// followed it.
func (s *Server) handshake(nc net.Conn, c *replica.Client, in []byte) ([]byte, error) {
	size, ok := helloSize(in)
	if !ok {
		return nil, notHello(size)
	}
	in, err := readTo(nc, in, frameHead+size)
	if err != nil {
		return nil, helloCut(err)
	}
	return s.connect(c, in, frameHead+size)
}

//go:noinline
func notHello(size int) error {
	return fmt.Errorf("its first frame has %d bytes, a connect request at most %d: this is no ZooKeeper client, or a four-letter word that does not exist",
		size, jute.ConnectRequestSizeMax)
}

//go:noinline
func helloCut(err error) error { return fmt.Errorf("read the connect request: %w", err) }

// connect takes the connect request in the first size bytes of in, and returns what follows it.
//
//go:noinline
func (s *Server) connect(c *replica.Client, in []byte, size int) ([]byte, error) {
	d := jute.NewDecoder(in[frameHead:size])
	var hello jute.ConnectRequest // its password aliases in
	if hello.Decode(d); d.Err() != nil {
		return nil, fmt.Errorf("decode the connect request: %w", d.Err())
	}
	err := s.replica.Connect(c, &hello, s.newID)
	return append(in[:0], in[size:]...), err
}

// ended logs why a connection ended, and makes the replica forget its client.
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

// sessionBy returns the time by which c must have its session.
func (s *Server) sessionBy(c *replica.Client) time.Time {
	return c.Since.Add(max(s.opt.SessionlessTimeout, time.Duration(c.Timeout())*time.Millisecond))
}

// awaitSession waits until c is established. It also polls whether c is closing: nobody reads c's
// socket meanwhile, so the loss of the connection would not be noticed.
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

// sessionLook is the interval at which awaitSession checks whether c is closing.
const sessionLook = 100 * time.Millisecond

// extendDeadline renews the expired handshake deadline of nc, or removes it if c is established by
// now, as is usual.
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

// readRequests passes the input, which begins with buf, to the replica until the connection ends.
// Reading begins while the log is still attaching the session; the input waits until the session is
// attached.
func (s *Server) readRequests(nc net.Conn, c *replica.Client, buf []byte) error {
	quiet, n, attached := 0, len(buf), false
	var turn inTurn
	c.Blocks = turn.endSoon
	c.NoteInput(cap(buf))
	for {
		if n > 0 {
			if !attached {
				if err := s.awaitSession(c); err != nil {
					return err
				}
				attached = true
			}
			c.FrameArrived(buf)
			used, err := s.receiveAll(nc, c, &turn, buf)
			if err != nil {
				s.flushLast(nc, c)
				return err
			}
			full := len(buf) == cap(buf)
			if buf = buf[:copy(buf, buf[used:])]; len(buf) > 0 {
				c.NoteFrame(buf, used > 0, s.now())
			} else {
				c.NoteFrame(nil, false, 0)
			}
			switch size := inputSize(c, buf, full); {
			case size > cap(buf):
				if len(buf) == cap(buf) && !s.awaitFrameRoom(nc, c, buf, size) {
					return replica.ErrClosing
				}
				buf, quiet = append(make([]byte, 0, size), buf...), 0
				c.NoteInput(size)
			case size < cap(buf):
				buf = append(make([]byte, 0, size), buf...)
				c.NoteInput(size)
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

// outdatedPause is the interval of checking whether this server knows again that a session is alive.
const outdatedPause = 10 * time.Millisecond

const untoldPause = 2 * time.Millisecond // interval of checking whether the client was told of a refusal

// receiveAll passes the input that arrived on a connection to the replica.
func (s *Server) receiveAll(nc net.Conn, c *replica.Client, turn *inTurn, in []byte) (used int, err error) {
	now := s.now()
	begun := now
	defer func() { s.tookIn(c, used, time.Duration(s.now()-begun)) }()
	for {
		n, err := s.receiveInTurn(c, turn, in[used:], now)
		used += n
		if errors.Is(err, replica.ErrNotUpToDate) {
			if c.Ending() != "" {
				return used, replica.ErrClosing
			}
			if !s.pause(outdatedPause) {
				return used, errStopping
			}
			now = s.now()
			continue
		}
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

// inputSize returns how large the buffer of requests is to be, which holds the unprocessed bytes in. full says that the
// last read has filled it. It grows fourfold up to inputBytesMax, but one large frame gets a buffer of its size. While
// room is short, a buffer that is empty doesn't stay large, and none grows for speed alone.
func inputSize(c *replica.Client, in []byte, full bool) int {
	size := cap(in)
	switch {
	case len(in) == size && size >= replica.InputFreeBytes: // Receive has refused frames larger than allowed
		return frameHead + int(binary.BigEndian.Uint32(in))
	case full && size < inputBytesMax:
		if more := min(size*4, inputBytesMax); len(in) == size || c.MayBuffer(more) {
			return more
		}
	case len(in) == 0 && size > replica.InputFreeBytes && c.FramesShort():
		return inputBytesMin
	}
	return size
}

// awaitFrameRoom waits until there is room for a frame of size bytes, which begins with in. It returns false if the
// connection is to end.
func (s *Server) awaitFrameRoom(nc net.Conn, c *replica.Client, in []byte, size int) bool {
	if c.TakeFrame(size) {
		return true
	}
	c.AwaitsRoom()
	c.NoteFrame(nil, false, 0) // it isn't the client that is late
	if s.flushOwn(nc, c) {
		return false
	}
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for {
		select {
		case <-c.FrameRoom():
			c.NoteFrame(in, true, s.now())
			return true
		case <-s.closing:
			return false
		case <-look.C:
			if c.Ending() != "" {
				return false
			}
		}
	}
}

// flushOwn writes waiting output on the reader's goroutine, unless another goroutine is flushing,
// and reports whether the connection is to end.
func (s *Server) flushOwn(nc net.Conn, c *replica.Client) bool {
	begun, ended := c.BeginFlush()
	if begun {
		return s.flush(nc, c)
	}
	return ended
}

// flushLast writes waiting output before the reader gives up the connection; if another goroutine
// is flushing, it waits for that.
func (s *Server) flushLast(nc net.Conn, c *replica.Client) {
	if !s.flushOwn(nc, c) {
		c.AwaitFlush()
	}
}

// flush writes a client's output until none is left, and reports whether it closed the connection.
func (s *Server) flush(nc net.Conn, c *replica.Client) bool {
	return s.flushFrom(nc, c, s.tryOutput(c))
}

// pushTo flushes as far as that can't block or take long, and leaves the rest to a new goroutine.
func (s *Server) pushTo(nc net.Conn, c *replica.Client) {
	if left := s.tryOutput(c); left.Out != nil || left.Last || left.Long {
		go s.flushFrom(nc, c, left)
	}
}

// sendEvery says that one in sendEvery writes to clients is timed: reading the clock twice would
// add a few percent to the cost of a short write.
const sendEvery = 16

// tryOutput calls c.TryOutput, and times some of the calls.
func (s *Server) tryOutput(c *replica.Client) (left replica.Unsent) {
	if s.sends.Add(1)%sendEvery != 0 {
		left = c.TryOutput()
		s.delivered(c)
		return left
	}
	begun := s.now()
	left = c.TryOutput()
	s.meters.Stages.Send.Observe(s.now() - begun)
	s.delivered(c)
	return left
}

// delivered records how long the delivery of events took; output not yet written counts as
// delivered.
func (s *Server) delivered(c *replica.Client) {
	if at := c.Told(); at != 0 {
		s.meters.Stages.Watch.Observe(s.now() - at)
	}
}

// flushFrom continues the flush where tryOutput left it.
func (s *Server) flushFrom(nc net.Conn, c *replica.Client, left replica.Unsent) bool {
	out, sent, last := left.Out, left.Sent, left.Last
	if left.Long {
		out, last = c.TakeOutput(nil)
	}
	conn := steadyConn{Conn: nc, tcp: nc, timeout: s.opt.WriteTimeout}
	if _, secure := nc.(*tls.Conn); !secure && out != nil {
		conn.begin()
	}
	for {
		if last {
			nc.Close()
			return true
		}
		if out == nil {
			return false
		}
		now := time.Now()
		if c.WriteBy.Sub(now) < s.opt.WriteTimeout/2 {
			// Not for every write: with thousands of connections, setting timers would cost as much as the
			// writes they guard.
			c.WriteBy = now.Add(s.opt.WriteTimeout)
			conn.SetWriteDeadline(c.WriteBy)
		}
		if _, err := conn.Write(out[sent:]); err != nil {
			c.CloseAfter("writing to it failed: " + err.Error())
			nc.Close()
			c.Lost()
			return true
		}
		s.wrote(c, len(out)-sent, now)
		out, last = c.TakeOutput(out)
		sent = 0
	}
}

// logEnd logs why a connection ended.
func (s *Server) logEnd(c *replica.Client, err error) {
	why := c.Ending()
	var size *jute.FrameSizeError
	switch {
	case why != "":
		s.clientLog.Info("closed a client connection", "client", c.Remote(), "session", replica.SessionText(c.Session()),
			"why", why)
	case errors.As(err, &size):
		s.clientLog.Warn("closed a client connection: the frame is malformed or too large", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "err", err, "code", "ZD-4002")
	case errors.Is(err, io.EOF):
		s.clientLog.Info("a client closed its connection", "client", c.Remote(), "session", replica.SessionText(c.Session()))
	default:
		s.clientLog.Info("a client connection ended", "client", c.Remote(), "session", replica.SessionText(c.Session()),
			"err", err)
	}
}
