package server

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/turns"
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

// requests passes clients' input to the replica.
type requests struct {
	*engine
	replies    *replies
	slow       slowStages
	turns      *turns.Turns // of identities
	payerTurns *turns.Turns // of identities, and of addresses that answer for several
}

// sessionBy returns the time by which c must have its session.
func (r *requests) sessionBy(c *replica.Client) time.Time {
	return c.Since.Add(max(r.opt.SessionlessTimeout, time.Duration(c.Timeout())*time.Millisecond))
}

// awaitSession waits until c is established. It also polls whether c is closing: c's socket isn't
// read meanwhile, so a lost connection would go unnoticed.
func (r *requests) awaitSession(c *replica.Client) error {
	if c.Established() {
		return nil
	}
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for by := r.sessionBy(c); ; {
		select {
		case <-c.Answered():
			return nil
		case <-r.closing:
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

const sessionLook = 100 * time.Millisecond // interval at which awaitSession checks whether c is closing

// extendDeadline renews the expired handshake deadline of nc, or removes it if c is established by now, as is usual.
func (r *requests) extendDeadline(nc net.Conn, c *replica.Client) error {
	by := r.sessionBy(c)
	switch {
	case c.Established():
		by = time.Time{}
	case !time.Now().Before(by):
		return errNoSession
	}
	return nc.SetReadDeadline(by)
}

// readRequests passes the input, which begins with buf, to the replica until the connection ends. Reading begins while
// the log is still attaching the session; the input waits until the session is attached.
func (r *requests) readRequests(nc net.Conn, c *replica.Client, buf []byte) error {
	quiet, n, attached := 0, len(buf), false
	var turn inTurn
	c.Blocks = turn.endSoon
	c.NoteInput(cap(buf))
	for {
		if n > 0 {
			if !attached {
				if err := r.awaitSession(c); err != nil {
					return r.replies.flushLast(nc, c, err)
				}
				attached = true
			}
			c.FrameArrived(buf)
			used, err := r.receiveAll(nc, c, &turn, buf)
			if err != nil {
				return r.replies.flushLast(nc, c, err)
			}
			full := len(buf) == cap(buf)
			if buf = buf[:copy(buf, buf[used:])]; len(buf) > 0 {
				c.NoteFrame(buf, used > 0, r.now())
			} else {
				c.NoteFrame(nil, false, 0)
			}
			switch size := inputSize(c, buf, full); {
			case size > cap(buf):
				if len(buf) == cap(buf) && !r.awaitFrameRoom(nc, c, buf, size) {
					return r.replies.flushLast(nc, c, replica.ErrClosing)
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
		if r.replies.flushOwn(nc, c) {
			return replica.ErrClosing
		}
		var err error
		n, err = nc.Read(buf[len(buf):cap(buf)])
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			err = r.extendDeadline(nc, c)
		}
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
	}
}

// outdatedPause is the interval of checking whether this server can tell again that a session is alive.
const outdatedPause = 10 * time.Millisecond
const untoldPause = 2 * time.Millisecond // interval of checking whether the client was told of a refusal

// receiveAll passes the input that arrived on a connection to the replica.
func (r *requests) receiveAll(nc net.Conn, c *replica.Client, turn *inTurn, in []byte) (used int, err error) {
	now := r.now()
	begun := now
	defer func() {
		took := r.now() - begun
		r.meters.Stages.Decode.Observe(took)
		r.slow.tookIn(c, used, time.Duration(took))
	}()
	for {
		n, err := r.receiveInTurn(c, turn, in[used:], now)
		used += n
		if errors.Is(err, replica.ErrNotUpToDate) {
			if c.Ending() != "" {
				return used, replica.ErrClosing
			}
			if !r.pause(outdatedPause) {
				return used, errStopping
			}
			now = r.now()
			continue
		}
		if !errors.Is(err, replica.ErrUntold) && !errors.Is(err, replica.ErrPaced) {
			return used, err
		}
		if r.replies.flushOwn(nc, c) {
			return used, replica.ErrClosing
		}
		pause := untoldPause
		if errors.Is(err, replica.ErrPaced) {
			pause = c.Pause()
		}
		if !r.pause(pause) {
			return used, errStopping // a connection that the server has closed is never told anything
		}
		now = r.now()
	}
}

// inputSize returns the next size of the buffer of requests, which holds the unprocessed bytes in. full says that the
// last read has filled it. The buffer grows fourfold up to inputBytesMax, but one large frame gets a buffer of its
// size. While room is short, an empty buffer doesn't stay large, and none grows for speed alone.
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
// connection must end.
func (r *requests) awaitFrameRoom(nc net.Conn, c *replica.Client, in []byte, size int) bool {
	if c.TakeFrame(size) {
		return true
	}
	c.AwaitsRoom()
	c.NoteFrame(nil, false, 0) // the client isn't late
	if r.replies.flushOwn(nc, c) {
		return false
	}
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for {
		select {
		case <-c.FrameRoom():
			c.NoteFrame(in, true, r.now())
			return true
		case <-r.closing:
			return false
		case <-look.C:
			if c.Ending() != "" {
				return false
			}
		}
	}
}

// turnPatience is the longest time that a connection's input waits for the turn of its identity,
// unless a quarter of the session's timeout is less.
const turnPatience = time.Second

// receiveInTurn passes input to the replica when it is the turn of the client's identity.
func (r *requests) receiveInTurn(c *replica.Client, turn *inTurn, in []byte, now int64) (used int, err error) {
	began := now
	if own, payers := c.Turns(); own != nil {
		paying := own
		if payers != nil {
			paying = payers
		}
		if len(in) > frameHead+jute.RequestHeaderSize || !replica.Pressing(in) { // not a heartbeat
			r.turns.Note(own, now)
			r.payerTurns.Note(paying, now)
		}
		patience := min(turnPatience, time.Duration(c.Timeout())*time.Millisecond/4)
		if c.Crowded = turn.own.Begin(r.turns, own, now, patience); c.Crowded {
			r.meters.TurnsAwaited.Inc()
			began = r.now()
		}
		if payers != nil { // after its own turn: the identities that wait for the address take turns themselves
			patience -= time.Duration(began - now)
			if turn.payers.Begin(r.payerTurns, payers, began, patience) {
				c.Crowded = true
				r.meters.TurnsAwaited.Inc()
				began = r.now()
			}
		}
		defer turn.end()
	}
	used, err = r.replica.Receive(c, in, now)
	if turn.own.Held() || turn.payers.Held() {
		if rest := turn.rest(r.now() - began); rest > 0 {
			r.pause(rest)
		}
	}
	return used, err
}

// An inTurn has the turns that a connection takes: one of its identity, and, if any client could claim that identity,
// one of the address that answers for it, so that a host with many made-up identities takes no more turns than others.
type inTurn struct{ own, payers turns.Turn }

// endSoon says that the connection is about to wait for others.
func (t *inTurn) endSoon() {
	t.own.EndSoon()
	t.payers.EndSoon()
}

// end ends the turns, if there are any.
func (t *inTurn) end() {
	t.payers.End()
	t.own.End()
}

// rest returns how long to rest before the end, after turns of that length (ns).
func (t *inTurn) rest(took int64) (rest time.Duration) {
	for _, turn := range [...]*turns.Turn{&t.own, &t.payers} {
		if turn.Held() {
			rest = max(rest, turn.Rest(took))
		}
	}
	return rest
}

// slowStages logs the stages that took as long as a slow request (log.slowRequestMs). The replica logs the stages that
// it sees. Receiving and sending happen here, for many requests at once, and are logged separately.
type slowStages struct {
	log  *slog.Logger  // limited in rate
	slow time.Duration // 0 for never
}

// tookIn logs receiving size bytes of a client's requests, if that took long.
func (s *slowStages) tookIn(c *replica.Client, size int, took time.Duration) {
	if s.slow > 0 && took >= s.slow {
		s.log.Warn("a client's requests were accepted slowly", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "decodeMs", took.Milliseconds())
	}
}

// wrote logs a write of size bytes that had to wait long for the client to read.
func (s *slowStages) wrote(c *replica.Client, size int, took time.Duration) {
	if s.slow > 0 && took >= s.slow {
		s.log.Warn("a client was slow to read its answers", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "sendMs", took.Milliseconds())
	}
}
