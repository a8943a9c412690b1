package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/jute"
)

// A conn is one TCP connection of a client to a server, with both its ends. The
// server's end does what conn.go of package server does with sockets and goroutines.
type conn struct {
	w  *World
	id int32 // in the history
	c  *client
	l  *life

	up, down *stream
	clientIn []byte // received, but not a whole frame yet
	gone     bool   // the client has closed it

	serving  *replica.Client // nil before the first byte
	serverIn []byte
	asked    bool // the connect request was taken
	flushing bool
	closed   bool // the server has closed it
	answered bool // the server has written to it
	blocked  bool // the server's reader waits for the replica
}

// dial opens a connection to a server and passes it to the client, or nil if it
// is refused. If the path is cut, no answer comes.
func (c *client) dial(s *host) {
	w := c.w
	try := c.attempt
	answer := func(after int64, k *conn) {
		w.after(after, func() {
			if c.attempt == try && c.conn == nil {
				c.dialled(k)
			}
		})
	}
	if w.cut(0, s.index) {
		return
	}
	w.after(w.delay(), func() {
		l := s.life
		if l == nil || l.rep == nil {
			answer(w.delay(), nil)
			return
		}
		k := &conn{
			w: w, id: w.conns, c: c, l: l,
			up: &stream{w: w, from: 0, to: s.index}, down: &stream{w: w, from: s.index, to: 0},
		}
		w.conns++
		l.conns = append(l.conns, k)
		k.down.send(w.now, func() {
			if c.attempt == try && c.conn == nil {
				c.dialled(k)
			} else {
				k.hangUp()
			}
		})
	})
}

// The client's end.

// write sends bytes to the server, now and then in pieces.
func (k *conn) write(b []byte) {
	k.w.traceBytes(1, b)
	for part := range k.w.pieces(b) {
		k.up.send(k.w.now, func() { k.l.s.awake(func() { k.arrived(part) }) })
	}
}

// pieces returns what is sent at once of b: all of it, or now and then a part.
func (w *World) pieces(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := len(b)
			if chance(w.netDice, w.plan.Pieces) {
				n = 1 + w.netDice.IntN(n)
			}
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// hangUp closes the connection from the client's end. The server learns of it after
// earlier data, if at all.
func (k *conn) hangUp() {
	if k.gone {
		return
	}
	k.gone = true
	k.down.dead = true
	if chance(k.w.netDice, 20) {
		// A reset overtakes data under way.
		k.up.segments = nil
	}
	if chance(k.w.netDice, k.w.plan.HalfOpen) {
		k.up.dead = true
		return
	}
	k.up.send(k.w.now, func() { k.l.s.awake(k.close) })
}

// The server's end.

// A socket is a conn as the replica sees it.
type socket struct {
	replica.Woken
	k *conn
}

// Acked reports whether the client has received everything written so far.
func (s socket) Acked() bool { return !s.k.down.dead && len(s.k.down.segments) == 0 }

// arrived handles bytes from the client.
func (k *conn) arrived(b []byte) {
	if k.closed || k.l.ended {
		return
	}
	if k.serving == nil {
		remote := fmt.Sprintf("10.0.0.%d:%d", k.c.index+1, k.id)
		k.serving = replica.NewClient(k.l.newID(), remote, jute.ID{Scheme: "ip", ID: fmt.Sprintf("10.0.0.%d", k.c.index+1)},
			socket{k.wake, k})
		k.l.served[k.serving] = true
		if k.c == k.w.restorer {
			k.serving.MayRestore()
		}
	}
	k.serverIn = append(k.serverIn, b...)
	k.w.ledger.arrived(k)
	k.l.protect(k.read)
}

// read handles the arrived data. Like a server's reader, it reads the clock, and then waits for the replica if that is
// locked; data that arrives meanwhile is read afterwards.
func (k *conn) read() {
	if k.blocked {
		return
	}
	at, n := k.l.s.monotonic(), len(k.serverIn)
	if k.w.now >= k.l.lockedTo {
		k.readAt(at)
		return
	}
	k.blocked = true
	k.l.locked(func() {
		k.blocked = false
		if k.closed {
			return
		}
		late := k.serverIn[n:]
		k.serverIn = k.serverIn[:n:n]
		k.l.protect(func() { k.readAt(at) })
		if k.serverIn = append(k.serverIn, late...); len(late) > 0 && !k.closed && !k.l.ended {
			k.l.protect(k.read)
		}
	})
}

// readAt handles the arrived data, by a clock that was read before.
func (k *conn) readAt(at int64) {
	rep := k.l.rep
	if !k.asked {
		if len(k.serverIn) < 4 {
			return
		}
		n := int(binary.BigEndian.Uint32(k.serverIn))
		if len(k.serverIn) < 4+n {
			return
		}
		var q jute.ConnectRequest
		d := jute.NewDecoder(k.serverIn[4 : 4+n])
		q.Decode(d)
		if d.Err() != nil {
			k.w.fail("a connect request can't be decoded: %v", d.Err())
			return
		}
		k.asked = true
		k.serverIn = append([]byte(nil), k.serverIn[4+n:]...)
		if err := rep.Connect(k.serving, &q, k.l.newID); err != nil {
			k.close()
			return
		}
		k.w.ledger.takes(k)
		k.w.ledger.prolongs(k.w, q.SessionID)
		k.flush() // a read-only server has answered already
		k.w.after(handshakePatience, func() {
			if !k.serving.Established() {
				k.close()
			}
		})
	}
	if !k.serving.Established() || len(k.serverIn) == 0 {
		return
	}
	used, err := rep.Receive(k.serving, k.serverIn, at)
	k.serverIn = append(k.serverIn[:0:0], k.serverIn[used:]...)
	if errors.Is(err, replica.ErrNotUpToDate) {
		k.w.stats.Outdated++
		k.w.ledger.prolongs(k.w, k.serving.Session())
		k.w.after(outdatedPause, k.again)
		return
	}
	k.flush()
	switch {
	case errors.Is(err, replica.ErrUntold):
		k.w.stats.Untold++
		k.w.after(untoldPause, k.wake)
	case errors.Is(err, replica.ErrPaced):
		k.w.stats.Paced++
		k.w.after(int64(k.serving.Pause()), k.wake)
	case err != nil:
		k.close()
	}
}

// outdatedPause is how long the server waits before it checks again whether it knows that the session is alive.
const outdatedPause = 10 * millisecond

// again reads once more the input that the server didn't take, and writes nothing before.
func (k *conn) again() {
	k.l.s.awake(func() {
		switch {
		case k.closed || k.l.ended:
		case k.serving.Ending() != "":
			k.l.protect(k.flush)
		default:
			k.l.protect(k.read)
		}
	})
}

// untoldPause is how long the server waits before it checks again whether the client has been told.
const untoldPause = 2 * millisecond

// handshakePatience is how long a connect request may wait for a quorum.
const handshakePatience = 10 * second

// wake is called by the replica when there is output, which is then flushed soon.
func (k *conn) wake() {
	if k.flushing {
		return
	}
	k.flushing = true
	at := k.w.now + k.l.s.ahead
	k.w.after(k.l.elapsed, func() {
		k.l.s.awake(func() {
			k.flushing = false
			if k.l.ended || k.closed {
				return
			}
			k.l.protect(func() {
				k.flushOf(at)
				if !k.closed && k.serving.Established() && len(k.serverIn) > 0 {
					k.read()
				}
			})
		})
	})
}

// flush sends the output that waits for the client, which was decided on now.
func (k *conn) flush() { k.flushOf(k.w.now) }

// flushOf sends the output that waits for the client, which was decided on at that time.
func (k *conn) flushOf(at int64) {
	for !k.closed {
		out, last := k.serving.TakeOutput(nil)
		if last {
			k.close()
			return
		}
		if out == nil {
			return
		}
		k.w.traceBytes(2, out)
		k.w.ledger.answers(k, out, at)
		for part := range k.w.pieces(out) {
			k.down.send(k.w.now, func() { k.c.received(k, part) })
		}
	}
}

// close ends the connection at the server's end; earlier data still arrives.
func (k *conn) close() {
	if k.closed || k.l.ended {
		return
	}
	k.closed = true
	if k.serving != nil {
		k.l.locked(func() {
			k.l.protect(func() {
				k.l.rep.Disconnected(k.serving)
				delete(k.l.served, k.serving)
			})
			k.l.leaks()
		})
	}
	for i, other := range k.l.conns {
		if other == k {
			k.l.conns = append(k.l.conns[:i], k.l.conns[i+1:]...)
			break
		}
	}
	k.down.send(k.w.now, func() { k.c.lost(k) })
}

// serverGone handles the end of the server's process: its kernel resets the
// connection, unless the power went off. Then the client has to find out by
// itself, or the next process's kernel tells it.
func (k *conn) serverGone(silent bool) {
	k.closed = true
	k.up.dead = true
	switch {
	case silent:
		k.down.dead = true
		k.w.after(between(k.w.netDice, second, 20*second), func() { k.c.lost(k) })
	case chance(k.w.netDice, 50):
		k.down.send(k.w.now, func() { k.c.lost(k) }) // after what was sent before
	default:
		k.down.dead = true
		k.w.after(k.w.delay(), func() { k.c.lost(k) })
	}
}
