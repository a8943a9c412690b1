package replica

import (
	"runtime"
)

// A client's output: the replica appends frames to it, and the flusher takes them. One
// goroutine at a time is the flusher.

// TakeOutput hands the waiting output to the flusher. With nothing left it ends the flushing
// and returns nil; last says that the connection is to be closed then. done returns the
// buffer taken before. TakeOutput waits for the end of an Apply that part of the output
// belongs to.
func (c *Client) TakeOutput(done []byte) (out []byte, last bool) {
	out, last, await := c.takeOutput(done)
	if await != nil {
		await()
	}
	return out, last
}

// takeOutput is TakeOutput without the wait: await, if not nil, is to be called before
// anything of out is written.
func (c *Client) takeOutput(done []byte) (out []byte, last bool, await func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case cap(done) == 0:
	case cap(done) <= outputKeepBytes || len(c.out) > 0 && cap(done) <= outputPauseBytes:
		c.spare = done[:0]
	default:
		c.large.put(done)
	}
	for c.postponed && len(c.out) == 0 {
		c.mu.Unlock() // more takes locks that come before it
		c.more(c)
		runtime.Gosched() // who waits to run does so between the steps
		c.mu.Lock()
	}
	if len(c.out) < outputPauseBytes {
		c.room.Signal()
	}
	c.events.take()
	if c.taken = cap(c.out); len(c.out) == 0 {
		c.taken = 0
		if c.flushing = false; cap(c.out) == 0 {
			c.out, c.spare = c.spare, nil // most connections need only one buffer
		}
		return nil, c.closing, nil
	}
	if c.applied {
		c.applied, await = false, c.awaitApply
	}
	if c.fired != 0 {
		c.firedTaken.CompareAndSwap(0, c.fired)
		c.fired = 0
	}
	out, c.out, c.spare = c.out, c.spare, nil
	return out, false, await
}

// Told returns when (ns) the oldest event happened that was taken to be written since the
// last call, 0 for none.
func (c *Client) Told() (at int64) {
	if c.firedTaken.Load() == 0 {
		return 0
	}
	return c.firedTaken.Swap(0)
}

// TryOutput writes waiting output as far as that can't block. It returns what
// TakeOutput does, and how much of out is written.
func (c *Client) TryOutput() (out []byte, sent int, last bool) {
	out, last = c.TakeOutput(nil)
	if out == nil || c.Try == nil {
		return out, 0, last
	}
	if sent = c.Try(out); sent == len(out) {
		out, last = c.TakeOutput(out)
		sent = 0
	}
	return out, sent, last
}

// BeginFlush makes the caller the one who flushes if there is output and nobody else
// is at it. Otherwise ended reports that the connection is to end and nothing is left
// to be written.
func (c *Client) BeginFlush() (begun, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flushing || len(c.out) == 0 && !c.postponed {
		return false, !c.flushing && (c.closed || c.closing && len(c.out) == 0)
	}
	c.flushing = true
	return true, false
}

// AwaitFlush waits until nobody flushes, or the connection is gone.
func (c *Client) AwaitFlush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.flushing && !c.closed {
		c.room.Wait()
	}
}

// Lost says that the output can't be written any more. Only the flusher calls it.
func (c *Client) Lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.flushing = true, false
	c.room.Broadcast()
}

// flush wakes the connections that got output. If there is only one it may return
// it instead, to be pushed once mu is free: waking a goroutine would take longer
// than the write. Several are written to beside each other and beside the log.
func (r *Replica) flush() (push *Client) {
	alone := len(r.touched) == 1
	for _, c := range r.touched {
		c.touched = false
		c.mu.Lock()
		switch {
		case len(c.out) == 0 && !c.closing && !c.postponed:
		case alone && c.Push != nil && !c.flushing && !c.postponed && len(c.out) <= pushBytesMax:
			c.flushing, push = true, c
		default:
			c.queued()
		}
		c.mu.Unlock()
	}
	r.touched = r.touched[:0]
	r.unanswered.wake()
	return push
}

// tellAtOnce is how many watchers of a change are told before they are written to:
// those needn't wait until all others are told.
const tellAtOnce = 32

// pushBytesMax is what is worth writing on the quorum's goroutine.
const pushBytesMax = 4 << 10

// touch notes that c got output during this Apply; mu is held alone.
func (r *Replica) touch(c *Client) {
	if !c.touched {
		c.touched = true
		r.touched = append(r.touched, c)
	}
}
