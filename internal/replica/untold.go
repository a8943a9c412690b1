package replica

import (
	"errors"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// A client that pipelines writes means them in that order (X6). After a write was
// refused for lack of room on the disk or of memory, the next one is taken only once
// the client has received the refusal. Otherwise the later write could be applied
// while the client knows nothing about the earlier one.

// ErrUntold says that the next request on a connection is a write, and that the client
// has yet to be told that an earlier one was refused. It is to be brought again.
var ErrUntold = errors.New("the client has yet to be told that a write was refused")

// told reports whether all answers to what the client sent so far have reached it.
func (c *Client) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered.len() == 0 && len(c.out) == 0 && !c.flushing && (c.Acked == nil || c.Acked())
}

// Space tells how much room the disk has. Where there is none clients' writes are
// answered jute.ErrThrottledOp, which says that they were not executed; the less
// there is, the sooner a snapshot is due.
func (r *Replica) Space(s storage.SpaceState) {
	r.noRoom.Store(s.Level == storage.SpaceRefuse)
	r.snapshots.room.Store(max(s.LogRoom, 1))
}

// opNoRoom answers a write that the disk has no room for.
var opNoRoom = op{jute.OpError, kindRead, "NOSP", (*Replica).readNoRoom}

func (r *Replica) readNoRoom(_ *Client, out, _ []byte) ([]byte, jute.Code) {
	return out, jute.ErrThrottledOp
}

// mayWrite returns write, or its refusal for lack of room or memory.
func (t *readBatch) mayWrite(write *op, body []byte) (*op, error) {
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
func (t *readBatch) afford(op *op, body []byte) *op {
	if t.r.memory.tight.Load() == 0 {
		return op
	}
	t.release()
	return t.r.refuseGrowth(op, body)
}
