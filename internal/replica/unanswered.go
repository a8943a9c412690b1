package replica

import (
	"sync"
	"sync/atomic"
)

const (
	// unansweredTotalMax bounds the bytes of all clients' unanswered requests.
	// Without a quorum they wait for the patience of their clients, however many
	// clients there are. It is far more than a second's worth of writes.
	unansweredTotalMax = 256 << 20
	// smallRequestMax is the size up to which a request is let in all the same:
	// heartbeats, reads and small writes, which are bounded by their number.
	smallRequestMax = 1 << 10
	// requestOverhead is what a request counts beside the bytes of its record.
	requestOverhead = 64
)

// With more than globalOutstandingLimit unanswered in all, a connection may still have some, so that each
// wake-up of its reader and each write to its socket is for several, until all together are
// fewUnansweredTimes as many. Beyond that it may have one.
const (
	fewUnanswered      = 16
	fewUnansweredTimes = 4
)

// unanswered counts the requests of all clients that have no answer yet, and makes
// connections wait when there is too much of them: those first that send most.
// Its mutex may be taken while any other lock of the replica is held.
type unanswered struct {
	countMax, bytesMax int64
	now                func() int64 // ns

	// sum is the count in the upper bits and the bytes in the lower ones, so that a
	// request costs one atomic operation.
	sum atomic.Int64

	waits   atomic.Int32 // len(waiting)
	mu      sync.Mutex
	waiting []*Client // whose readers wait for bytes to become free
}

const unansweredBytesBits = 40

func (u *unanswered) add(count, bytes int64) { u.sum.Add(count<<unansweredBytesBits + bytes) }

func (u *unanswered) count() int64 { return u.sum.Load() >> unansweredBytesBits }

func (u *unanswered) bytes() int64 { return u.sum.Load() & (1<<unansweredBytesBits - 1) }

// manyRequests reports whether there are more than globalOutstandingLimit.
func (u *unanswered) manyRequests() bool { return u.count() > u.countMax }

// holds reports whether a client with n unanswered requests should wait for their number.
func (u *unanswered) holds(n int) bool {
	if n == 0 || !u.manyRequests() {
		return false
	}
	return n >= fewUnanswered || u.count() > fewUnansweredTimes*u.countMax
}

// manyBytes reports whether a client with a request of that size should wait.
func (u *unanswered) manyBytes(size int) bool {
	return size > smallRequestMax && u.bytes()+int64(size) > u.bytesMax
}

// await has wake wake c's reader, which is about to wait; it asks manyBytes again
// before it does.
func (u *unanswered) await(c *Client) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !c.awaits {
		c.awaits = true
		u.waiting = append(u.waiting, c)
		u.waits.Store(int32(len(u.waiting)))
	}
}

// wake wakes the readers that wait, once half of the bytes are free. The caller
// holds no client.
func (u *unanswered) wake() {
	if u.waits.Load() == 0 || u.bytes() > u.bytesMax/2 {
		return
	}
	u.mu.Lock()
	waiting := u.waiting
	u.waiting = nil
	u.waits.Store(0)
	for _, c := range waiting {
		c.awaits = false
	}
	u.mu.Unlock()
	for _, c := range waiting {
		c.mu.Lock()
		c.room.Broadcast()
		c.mu.Unlock()
	}
}
