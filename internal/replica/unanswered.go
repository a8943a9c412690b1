package replica

import (
	"sync/atomic"
)

const (
	// unansweredTotalMax bounds the bytes of all clients' unanswered requests; an unreadShare of memory.limit bounds
	// them, too. Without a quorum these wait as long as their clients do, however many clients there are. The bound is
	// far more than a second's worth of writes.
	unansweredTotalMax = 256 << 20
	// smallRequestMax is the size up to which a request is admitted regardless of that
	// bound: heartbeats, reads and small writes are bounded by their number.
	smallRequestMax = 1 << 10
)

// When more than globalOutstandingLimit requests are unanswered in total, a connection may still
// have up to fewUnanswered of them, so that each wake-up of its reader and each write to its socket
// serves several. Beyond fewUnansweredTimes that limit, a connection may have only one.
const (
	fewUnanswered      = 16
	fewUnansweredTimes = 4
	// crowdedUnanswered replaces a larger globalOutstandingLimit for connections of an identity that
	// keeps the server busy while others send requests, too.
	crowdedUnanswered = 256
)

// unanswered counts the unanswered requests of all clients, and makes connections wait when there are too many, first
// those that send most. Its mutex may be taken while any other lock of the replica is held.
type unanswered struct {
	countMax int64
	bytesMax atomic.Int64
	now      func() int64 // ns

	// sum holds the count in its upper bits and the bytes in the lower ones, so that a request costs one atomic operation.
	sum atomic.Int64

	waits   atomic.Int32 // len(waiting)
	mu      partLock
	waiting []*Client // whose readers wait for bytes to become free
}

const unansweredBytesBits = 40

func (u *unanswered) add(count, bytes int64) { u.sum.Add(count<<unansweredBytesBits + bytes) }

func (u *unanswered) count() int64 { return u.sum.Load() >> unansweredBytesBits }

func (u *unanswered) bytes() int64 { return u.sum.Load() & (1<<unansweredBytesBits - 1) }

// manyRequests reports whether there are more unanswered requests than globalOutstandingLimit.
func (u *unanswered) manyRequests() bool { return u.count() > u.countMax }

// holds reports whether a client with n unanswered requests has to wait because of their total
// number. crowded says that other connections of its identity wait for their turn.
func (u *unanswered) holds(n int, crowded bool) bool {
	count, most := u.count(), u.countMax
	if crowded {
		most = min(most, crowdedUnanswered)
	}
	return n > 0 && count > most && (n >= fewUnanswered || count > fewUnansweredTimes*u.countMax)
}

// manyBytes reports whether a client with a request of the given size has to wait.
func (u *unanswered) manyBytes(size int) bool {
	most := u.bytesMax.Load()
	return size > smallRequestMax && u.bytes()+min(int64(size), most/2) > most
}

// bound makes bytesMax follow memory.limit, which is 0 or less if there is none. A request counts as half of bytesMax
// at most: otherwise a larger one would wait forever.
func (u *unanswered) bound(limit int64) {
	most := int64(unansweredTotalMax)
	if limit > 0 {
		most = min(most, limit/unreadShare)
	}
	u.bytesMax.Store(most)
}

// await registers c for wake, because its reader is about to wait; the caller checks manyBytes again before it does.
func (u *unanswered) await(c *Client) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !c.awaits {
		c.awaits = true
		u.waiting = append(u.waiting, c)
		u.waits.Store(int32(len(u.waiting)))
	}
}

// wake wakes the waiting readers once half of the bytes are free. The caller must not hold any client.
func (u *unanswered) wake() {
	if u.waits.Load() == 0 || u.bytes() > u.bytesMax.Load()/2 {
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
