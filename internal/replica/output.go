package replica

import (
	"runtime"
	"time"
)

// A client's output: the replica appends frames to it, and the flusher takes them. Only one
// goroutine at a time is a client's flusher.

// TakeOutput hands the waiting output to the flusher. If there is none, it ends the flushing and returns nil; last then
// reports whether to close the connection. done returns the buffer taken by the previous call. If part of the output
// belongs to an Apply under way, TakeOutput waits until that Apply ends.
func (c *Client) TakeOutput(done []byte) (out []byte, last bool) {
	out, last, await := c.takeOutput(done, nil)
	if await != nil {
		await()
	}
	return out, last
}

// takeOutput is TakeOutput without the wait: await, if not nil, must be called before any byte of out is written. If
// long is not nil and long reads are next, takeOutput sets long instead of doing them; the caller remains the flusher.
func (c *Client) takeOutput(done []byte, long *bool) (out []byte, last bool, await func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case cap(done) == 0, cap(done) > outputFreeBytes && c.out.short():
	case cap(done) <= outputKeepBytes || len(c.out.frames) > 0 && cap(done) <= outputPauseBytes:
		c.out.spare = done[:0]
	default:
		c.out.large.Put(done)
	}
	for c.steps.due && !c.steps.parked && len(c.out.frames) == 0 {
		if long != nil {
			*long = true
			return nil, false, nil
		}
		c.mu.Unlock() // more takes locks that come before it in the lock order
		c.relax(c.steps.more(c))
		c.mu.Lock()
	}
	if !c.out.full() {
		c.room.Signal()
	}
	c.out.events.take()
	if c.out.taken = cap(c.out.frames); len(c.out.frames) == 0 || c.out.withheld {
		c.out.taken = 0
		if c.out.flushing = false; cap(c.out.frames) == 0 {
			c.out.frames, c.out.spare = c.out.spare, nil // most connections need only one buffer
		}
		if cap(c.out.frames)+cap(c.out.spare) > outputFreeBytes && len(c.out.frames) == 0 && c.out.short() {
			c.out.frames, c.out.spare = nil, nil
		}
		c.noteOutput()
		return nil, c.closing, nil
	}
	if c.out.applied {
		c.out.applied, await = false, c.out.awaitApply
	}
	if c.out.fired != 0 {
		c.out.firedTaken.CompareAndSwap(0, c.out.fired)
		c.out.fired = 0
	}
	out, c.out.frames, c.out.spare = c.out.frames, c.out.spare, nil
	c.noteOutput()
	return out, false, await
}

// Told returns the time (ns) of the oldest event whose notification was taken for writing since
// the last call, or 0 if there is none.
func (c *Client) Told() (at int64) {
	if c.out.firedTaken.Load() == 0 {
		return 0
	}
	return c.out.firedTaken.Swap(0)
}

// An Unsent is the work that TryOutput leaves to the flusher. Its zero value means that the flushing has ended.
type Unsent struct {
	Out  []byte // output that was taken
	Sent int    // bytes of Out that have been written
	Last bool   // as of TakeOutput
	Long bool   // Out is nil, and the flusher must call TakeOutput, which may take long
}

// TryOutput writes waiting output as far as possible without blocking or taking long.
func (c *Client) TryOutput() (left Unsent) {
	left = c.takeReady(nil)
	if left.Out == nil {
		return left
	}
	if left.Sent = c.Socket.Try(left.Out); left.Sent == len(left.Out) {
		return c.takeReady(left.Out)
	}
	return left
}

// takeReady is TakeOutput without long reads.
func (c *Client) takeReady(done []byte) (left Unsent) {
	var await func()
	if left.Out, left.Last, await = c.takeOutput(done, &left.Long); await != nil {
		await()
	}
	return left
}

// relax lets other goroutines run between two steps that keep the replica busy, for rest or longer.
func (c *Client) relax(rest time.Duration) {
	if rest > 0 {
		c.Socket.Rest(rest)
	} else {
		runtime.Gosched()
	}
}

// BeginFlush makes the caller the flusher if there is output and no flusher yet. Otherwise ended
// reports whether the connection is closing and has nothing left to write.
func (c *Client) BeginFlush() (begun, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.flushing || c.out.withheld && !c.closing || len(c.out.frames) == 0 && (!c.steps.due || c.steps.parked) {
		return false, !c.out.flushing && (c.closed || c.closing && len(c.out.frames) == 0)
	}
	c.out.flushing = true
	return true, false
}

// AwaitFlush waits until no goroutine is flushing, or the connection is gone.
func (c *Client) AwaitFlush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.flushing && !c.closed {
		c.room.Wait()
	}
}

// Lost records that the output can no longer be written. Only the flusher calls it.
func (c *Client) Lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.out.flushing = true, false
	c.room.Broadcast()
}

// flush wakes the flushers of connections that got output. If there is only one connection, flush may return it
// instead, for the caller to push once mu is free: waking a goroutine would take longer than the write. Several
// connections are written concurrently with each other and with the log.
func (r *Replica) flush(now int64) (push *Client) {
	r.mu.Held()
	alone := len(r.telling.touched) == 1
	for _, c := range r.telling.touched {
		c.arrival.touched = false
		c.mu.Lock()
		r.freshness.withhold(c, now) // this Apply may have taken long
		switch {
		case len(c.out.frames) == 0 && !c.closing && !c.steps.due, c.out.withheld:
		case alone && c.Socket.Tries() && !c.out.flushing && !c.steps.due && len(c.out.frames) <= pushBytesMax:
			c.out.flushing, push = true, c
		default:
			c.queued()
		}
		c.mu.Unlock()
	}
	r.telling.touched = r.telling.touched[:0]
	r.unanswered.wake()
	return push
}

// tellAtOnce is how many watchers of a change are notified before their connections are flushed, so
// that they don't wait for all the others.
const tellAtOnce = 32

// pushBytesMax is the most output that is worth writing on the quorum's goroutine.
const pushBytesMax = 4 << 10

// touch records that c got output during this Apply; mu is held for writing.
func (r *Replica) touch(c *Client) {
	r.mu.Held()
	if !c.arrival.touched {
		c.arrival.touched = true
		r.telling.touched = append(r.telling.touched, c)
	}
}
