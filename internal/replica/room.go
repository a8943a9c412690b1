package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/jute"
)

// One client could make a server need unbounded memory for replies and requests, by asking for large lists without
// reading them, or by beginning large requests without ending them. So all connections share one memory.Room for
// replies and one for requests, each an unreadShare of memory.limit:
//
//	replies  Room for a large reply is taken before its memory is; the read waits for it in its connection's queue. While
//	         room is short, no connection with more than outputFreeBytes unread gets further replies, and no request is
//	         taken whose reply repeats more than that (echoed). Those taken before are longer than their replies.
//	frames   Room for a request larger than InputFreeBytes is taken when its size is known, and the connection isn't read
//	         until it has it.
//
// A client that keeps others waiting without progress is closed (closeSlow).
type rooms struct{ replies, frames memory.Room }

const (
	// outputFreeBytes is how much unread output each connection may have without room.
	outputFreeBytes = 16 << 10
	// InputFreeBytes is how large a buffer of requests may be without room.
	InputFreeBytes = 8 << 10
	// scanRoom is how long a list gets before room is taken for it.
	scanRoom = 64 << 10
)

// bound sets the size of both rooms. limit is memory.limit, 0 or less for none.
func (o *rooms) bound(limit int64) {
	o.replies.Bound(limit / unreadShare)
	o.frames.Bound(limit / unreadShare)
}

// share makes c share the rooms; awaited counts the waits for replies and for frames. c.mu is held.
func (o *rooms) share(c *Client, awaited [2]*metrics.Counter) {
	c.steps.roomAwaited, c.input.awaited = awaited[0], awaited[1]
	c.out.held = o.replies.Holder(c.address.ID, c.replyMay)
	c.input.free = make(chan struct{}, 1)
	c.input.held = o.frames.Holder(c.address.ID, func() {
		select {
		case c.input.free <- struct{}{}:
		default:
		}
	})
}

// leaveRooms releases c's part of the rooms for good; c.mu is held, and c.closed is set.
func (c *Client) leaveRooms() {
	if c.out.held != nil {
		c.out.held.Leave()
		c.input.held.Leave()
	}
}

// outputHeld returns how much memory c's output uses; c.mu is held.
func (c *Client) outputHeld() int64 {
	n := cap(c.out.frames) + cap(c.out.spare) + c.out.taken
	if c.steps.read != nil {
		n += cap(c.steps.read.scan.Body)
	}
	return int64(n)
}

// noteOutput records the memory of c's output in the room for replies; c.mu is held.
func (c *Client) noteOutput() {
	if c.out.held == nil || c.closed {
		return
	}
	if c.steps.read == nil {
		c.steps.promised = 0
	}
	n := c.outputHeld() + int64(c.steps.promised)
	if n <= outputFreeBytes {
		n = 0
	}
	c.out.held.Note(n)
}

// echoed returns how many bytes of paths the reply to a request repeats if it succeeds: of a sync, of creates, and of
// those in a multi.
func echoed(code jute.Op, body []byte) (n int) {
	switch {
	case code == jute.OpSync, code.IsCreate():
		path, _ := pathOnly(body)
		return len(path)
	case code == jute.OpMulti:
		var d jute.Decoder
		d.Reset(body)
		ops, _ := jute.DecodeMulti(&d)
		for i := range ops {
			if ops[i].Op.IsCreate() {
				n += len(ops[i].Path)
			}
		}
	}
	return n
}

// takeRoom takes the room that c's long read needs next, and returns the read if it got it. If not, c is parked until
// there is room. A list that has begun is then dropped, and begun again when there is room, so that a waiting read
// holds no room.
func (c *Client) takeRoom() *longRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.steps.read
	if l == nil || l.room == 0 || c.closing || c.closed {
		return nil
	}
	if c.out.held == nil || l.room <= c.steps.promised {
		return l
	}
	n := c.outputHeld() + int64(l.room)
	if l.begun() {
		if c.out.held.Grow(n) {
			c.steps.promised = l.room
			return l
		}
		n -= int64(cap(l.scan.Body))
		l = l.anew()
		c.steps.read = l
		c.noteOutput()
	}
	if !c.out.held.Take(n) {
		c.steps.parked = true
		c.steps.roomAwaited.Inc()
		return nil
	}
	c.steps.promised = l.room
	return l
}

// replyMay continues the read of a parked client, for which there is room now.
func (c *Client) replyMay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.steps.parked || c.closed {
		return
	}
	c.steps.parked = false
	if c.steps.read != nil {
		c.steps.promised = c.steps.read.room
	}
	if !c.out.flushing && !c.out.withheld {
		c.out.flushing = true
		c.Socket.Wake()
	}
}

// RoomAwaited reports whether any client waits for room for a reply or a request.
func (r *rooms) RoomAwaited() bool { return r.replies.Waiting()+r.frames.Waiting() > 0 }

// closeSlow closes the clients that keep others waiting for room, see memory.Room.Slow.
func (r *Replica) closeSlow(now int64) {
	var replies, frames map[*memory.Holder]uint64
	if r.RoomAwaited() {
		replies, frames = map[*memory.Holder]uint64{}, map[*memory.Holder]uint64{}
		for _, c := range r.Clients() {
			c.mu.Lock()
			if n, ok := c.delivered(); ok {
				replies[c.out.held] = n
			}
			c.mu.Unlock()
			if c.frame.by.Load() != 0 {
				frames[c.input.held] = c.frame.moved.Load()
			}
		}
	}
	slow := r.rooms.replies.Slow(now, replies)
	slowFrames := r.rooms.frames.Slow(now, frames)
	if len(slow)+len(slowFrames) == 0 {
		return
	}
	for _, c := range r.Clients() {
		c.mu.Lock()
		if slices.Contains(slow, c.out.held) {
			r.closeForMemory(c, forReplies, c.out.held.Held())
		} else if slices.Contains(slowFrames, c.input.held) {
			r.closeForMemory(c, forFrames, c.input.held.Held())
		}
		c.mu.Unlock()
	}
}

// delivered returns how many bytes the other end has received, and false if it has nothing to receive, or if the number
// isn't known; c.mu is held.
func (c *Client) delivered() (n uint64, ok bool) {
	if c.closing || c.closed || c.out.taken == 0 && len(c.out.frames) == 0 || c.out.withheld {
		return 0, false
	}
	return c.Socket.Delivered()
}
