package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
)

// Replies and requests take memory that one client could make a server need without end: he asks for large lists and
// doesn't read them, or begins large requests and doesn't end them. What all connections have of each is a
// memory.Room, an unreadShare of memory.limit:
//
//	replies  Room for a large reply is taken before its memory is; the read waits for it in its connection's queue. While
//	         room is short, no connection gets further replies that has more than outputFreeBytes unread.
//	frames   Room for a request larger than InputFreeBytes is taken when its size is known, and the connection isn't read
//	         until it has it.
//
// Whoever keeps others waiting and doesn't move is closed (closeSlow).
type rooms struct{ replies, frames memory.Room }

const (
	// outputFreeBytes is how much unread output each connection may have without room.
	outputFreeBytes = 16 << 10
	// InputFreeBytes is how large a buffer of requests may be without room.
	InputFreeBytes = 8 << 10
	// scanRoom is how long a list gets before room is taken for it.
	scanRoom = 64 << 10
)

// bound sets how much both rooms have. limit is memory.limit, 0 or less for none.
func (o *rooms) bound(limit int64) {
	o.replies.Bound(limit / unreadShare)
	o.frames.Bound(limit / unreadShare)
}

// share makes c share the rooms; awaited counts what waited for replies and for frames. c.mu is held.
func (o *rooms) share(c *Client, awaited [2]*metrics.Counter) {
	c.roomAwaited = awaited
	c.replies = o.replies.Holder(c.address.ID, c.replyMay)
	c.frameRoom = make(chan struct{}, 1)
	c.frames = o.frames.Holder(c.address.ID, func() {
		select {
		case c.frameRoom <- struct{}{}:
		default:
		}
	})
}

// leaveRooms gives back what c had of the rooms, for good; c.mu is held, and c.closed is set.
func (c *Client) leaveRooms() {
	if c.replies != nil {
		c.replies.Leave()
		c.frames.Leave()
	}
}

// outputFull reports whether c may get no more replies until it has read some; c.mu is held.
func (c *Client) outputFull() bool {
	n := len(c.out)
	return n >= outputPauseBytes || n >= outputFreeBytes && c.outputShort()
}

// outputShort reports whether c is to keep little memory for output.
func (c *Client) outputShort() bool { return c.replies != nil && c.replies.Short() }

// outputHeld returns how much memory c's output takes; c.mu is held.
func (c *Client) outputHeld() int64 {
	n := cap(c.out) + cap(c.spare) + c.taken
	if c.long != nil {
		n += cap(c.long.scan.Body)
	}
	return int64(n)
}

// noteOutput notes in the room for replies what c's output takes; c.mu is held.
func (c *Client) noteOutput() {
	if c.replies == nil || c.closed {
		return
	}
	if c.long == nil {
		c.promised = 0
	}
	n := c.outputHeld() + int64(c.promised)
	if n <= outputFreeBytes {
		n = 0
	}
	c.replies.Note(n)
}

// takeRoom takes the room that c's long read needs next, and returns the read if it has it. If there is none, c is
// parked until there is. A list that has begun, and needs more than there is, is dropped, and begun again when there
// is: so those who wait hold nothing.
func (c *Client) takeRoom() *longRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.long
	if l == nil || l.room == 0 || c.closing || c.closed {
		return nil
	}
	if c.replies == nil || l.room <= c.promised {
		return l
	}
	n := c.outputHeld() + int64(l.room)
	if l.begun() {
		if c.replies.Grow(n) {
			c.promised = l.room
			return l
		}
		n -= int64(cap(l.scan.Body))
		l = l.anew()
		c.long = l
		c.noteOutput()
	}
	if !c.replies.Take(n) {
		c.parked = true
		c.roomAwaited[0].Inc()
		return nil
	}
	c.promised = l.room
	return l
}

// replyMay goes on with the read of a parked client, for which there is room now.
func (c *Client) replyMay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.parked || c.closed {
		return
	}
	c.parked = false
	if c.long != nil {
		c.promised = c.long.room
	}
	if !c.flushing && !c.withheld {
		c.flushing = true
		c.Wake()
	}
}

// TakeFrame takes room for a request of n bytes, which is arriving, and reports whether there is. If there is none, it
// comes with FrameRoom. Only the connection's reader calls it.
func (c *Client) TakeFrame(n int) bool {
	return c.frames == nil || n <= InputFreeBytes || c.frames.Take(int64(n))
}

// AwaitsRoom counts that a request waits for room.
func (c *Client) AwaitsRoom() { c.roomAwaited[1].Inc() }

// FrameRoom returns a channel that gets a value when there is the room that TakeFrame didn't find.
func (c *Client) FrameRoom() <-chan struct{} { return c.frameRoom }

// MayBuffer reports whether the buffer of requests may be of n bytes, though none of them is as large. Only the
// connection's reader calls it.
func (c *Client) MayBuffer(n int) bool {
	return c.frames == nil || n <= InputFreeBytes || !c.frames.Short() && c.frames.Grow(int64(n))
}

// FramesShort reports whether buffers of requests are to stay small.
func (c *Client) FramesShort() bool { return c.frames != nil && c.frames.Short() }

// NoteInput notes the size of the buffer into which the client's requests are read.
func (c *Client) NoteInput(bytes int) {
	c.input.Store(int64(bytes))
	if bytes <= InputFreeBytes {
		bytes = 0
	}
	if c.frames != nil {
		c.frames.Note(int64(bytes))
	}
}

// RoomAwaited reports whether anybody waits for room for a reply or a request.
func (r *Replica) RoomAwaited() bool { return r.rooms.replies.Waiting()+r.rooms.frames.Waiting() > 0 }

// closeSlow closes the clients that keep others waiting for room, see memory.Room.Slow.
func (r *Replica) closeSlow(now int64) {
	var replies, frames map[*memory.Holder]uint64
	if r.RoomAwaited() {
		replies, frames = map[*memory.Holder]uint64{}, map[*memory.Holder]uint64{}
		for _, c := range r.Clients() {
			c.mu.Lock()
			if n, ok := c.delivered(); ok {
				replies[c.replies] = n
			}
			c.mu.Unlock()
			if c.frame.by.Load() != 0 {
				frames[c.frames] = c.frame.moved.Load()
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
		if slices.Contains(slow, c.replies) {
			r.closeForMemory(c, forReplies, c.replies.Held())
		} else if slices.Contains(slowFrames, c.frames) {
			r.closeForMemory(c, forFrames, c.frames.Held())
		}
		c.mu.Unlock()
	}
}

// delivered returns how many bytes the other end has received, and false if there is nothing that it is to receive, or
// if that isn't known; c.mu is held.
func (c *Client) delivered() (n uint64, ok bool) {
	if c.closing || c.closed || c.Delivered == nil || c.taken == 0 && len(c.out) == 0 || c.withheld {
		return 0, false
	}
	return c.Delivered()
}
