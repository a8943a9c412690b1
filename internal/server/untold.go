package server

import (
	"errors"
	"net"
	"time"
)

// A client that pipelines writes means them in that order (X6). After a write was
// refused for lack of room on the disk or of memory, the next one is taken only once
// the client has received the refusal. Otherwise the later write could be applied
// while the client knows nothing about the earlier one.

// ErrUntold says that the next request on a connection is a write, and that the client
// has yet to be told that an earlier one was refused. It is to be brought again.
var ErrUntold = errors.New("the client has yet to be told that a write was refused")

const untoldPause = 2 * time.Millisecond // between two looks at whether the client was told

// told reports whether all answers to what the client sent so far have reached it.
func (c *client) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered.len() == 0 && len(c.out) == 0 && !c.flushing && (c.acked == nil || c.acked())
}

// mayWrite returns write, or its refusal for lack of room or memory.
func (t *turn) mayWrite(write *op, body []byte) (*op, error) {
	if t.r.noRoom.Load() || t.afford(write, body) != write {
		t.c.refused = true
		return &opNoRoom, nil
	}
	if t.c.refused {
		if t.release(); !t.c.told() {
			return nil, ErrUntold
		}
		t.c.refused = false
	}
	return write, nil
}

// afford returns op, or its refusal for lack of memory.
func (t *turn) afford(op *op, body []byte) *op {
	if t.r.memory.tight.Load() == 0 {
		return op
	}
	t.release()
	return t.r.refuseGrowth(op, body)
}

// receiveAll brings the replica what arrived on a connection.
func (s *Server) receiveAll(nc net.Conn, c *client, in []byte) (used int, err error) {
	for now := s.now(); ; time.Sleep(untoldPause) {
		n, err := s.replica.receive(c, in[used:], now)
		if used += n; err != ErrUntold {
			return used, err
		}
		if s.flushOwn(nc, c) {
			return used, errClosing
		}
	}
}
