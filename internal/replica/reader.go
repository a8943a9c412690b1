package replica

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// A reader is the part of a Client that the goroutine that reads the connection owns. No other goroutine uses it,
// except for recordsKept, and except before the session is attached and after the connection has ended.
type reader struct {
	// Crowded says that other connections of the client's identity wait to be read.
	Crowded bool
	// Blocks is called before Receive waits, perhaps with Client.mu held. It must not block.
	Blocks func()

	inTable inTable
	sasl    sasl.Login // the SASL login under way or finished

	seq         int64        // of the last write sent
	records     []byte       // writes of the readBatch under way, encoded as records
	recordIDs   *[]jute.ID   // identities in the last of records
	recordsKept atomic.Int64 // cap(records) after the last readBatch

	unspentRequests, unspentBytes, spentAt int64 // see spend

	pause, pacedSince int64 // ns
	loginSince        int64 // now (ns) since when a login waits to be judged, 0 for none
	heldSince         int64 // now (ns) since when a write of this client has been held back

	refused bool // a write was refused, and the client may not know that yet
	leaves  bool // the client has asked to close its session
}

// Pause returns how long to wait after ErrPaced.
func (r *reader) Pause() time.Duration { return time.Duration(r.pause) }

// A frame is the unfinished frame with which a connection's input ends, if there is one. The reader of the connection
// owns it; others use the atomic fields.
type frame struct {
	size  int           // bytes received so far
	since int64         // now (ns) when it was recorded
	moved atomic.Uint64 // bytes of unfinished frames so far
	by    atomic.Int64  // now (ns) by which it must be complete; 0 for none
	late  atomic.Bool   // it was late at the last look
}

// A frame has to arrive at frameBytesPerSecond, or within frameTimeMin (ns) if that is longer: otherwise a client that
// sends a frame byte by byte could hold its memory, and keep its session alive, indefinitely.
const (
	frameBytesPerSecond = 16 << 10
	frameTimeMin        = int64(10e9)
)

// NoteFrame records the unfinished frame with which the input ends at now (ns), if any. fresh says that it is not the
// last call's frame. Only the connection's reader calls it.
func (f *frame) NoteFrame(rest []byte, fresh bool, now int64) {
	by := f.by.Load()
	if len(rest) == 0 {
		if by != 0 {
			f.by.Store(0)
		}
		return
	}
	if fresh || by == 0 {
		f.since, f.size = now, 0
	}
	f.moved.Add(uint64(len(rest) - f.size))
	f.size = len(rest)
	time := frameTimeMin
	if len(rest) >= frameLengthSize {
		time = max(time, int64(binary.BigEndian.Uint32(rest))*1e9/frameBytesPerSecond)
	}
	f.by.Store(f.since + time)
}

// FrameArrived records that the input now begins with in, which may hold the whole unfinished frame: from then on only
// the server can be late. Only the connection's reader calls it.
func (f *frame) FrameArrived(in []byte) {
	if f.by.Load() != 0 && len(in) >= frameLengthSize &&
		int64(len(in)-frameLengthSize) >= int64(binary.BigEndian.Uint32(in)) {
		f.by.Store(0)
	}
}

// isLate reports whether the unfinished frame should have been complete by now (ns).
func (f *frame) isLate(now int64) bool {
	by := f.by.Load()
	return by != 0 && now > by
}

// closeLate closes the client if its frame is late, and was late at the last look: after a stall of this server, the
// rest may have arrived unread.
func (c *Client) closeLate(now int64) {
	if late := c.frame.isLate(now); !late || !c.frame.late.Load() {
		c.frame.late.Store(late)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing && !c.closed {
		c.cut("it did not finish a request in time: it has 10 s, or a second for each 16 KiB")
	}
}

// An input is the buffer into which a connection's requests are read. The reader of the connection owns it; others use
// its size.
type input struct {
	size    atomic.Int64
	held    *memory.Holder   // the buffer, if it is large; nil until registered
	free    chan struct{}    // see FrameRoom
	awaited *metrics.Counter // requests that waited for room
}

// TakeFrame takes room for an arriving request of n bytes, and reports whether there is any. If not, FrameRoom tells
// when there is. Only the connection's reader calls TakeFrame.
func (i *input) TakeFrame(n int) bool {
	return i.held == nil || n <= InputFreeBytes || i.held.Take(int64(n))
}

// AwaitsRoom counts that a request waits for room.
func (i *input) AwaitsRoom() { i.awaited.Inc() }

// FrameRoom returns a channel that gets a value when there is the room that TakeFrame lacked.
func (i *input) FrameRoom() <-chan struct{} { return i.free }

// MayBuffer reports whether the buffer of requests may have n bytes, though no request is that large. Only the
// connection's reader calls it.
func (i *input) MayBuffer(n int) bool {
	return i.held == nil || n <= InputFreeBytes || !i.held.Short() && i.held.Grow(int64(n))
}

// FramesShort reports whether buffers of requests should stay small.
func (i *input) FramesShort() bool { return i.held != nil && i.held.Short() }

// NoteInput records the size of the buffer into which the client's requests are read.
func (i *input) NoteInput(bytes int) {
	i.size.Store(int64(bytes))
	if bytes <= InputFreeBytes {
		bytes = 0
	}
	if i.held != nil {
		i.held.Note(int64(bytes))
	}
}
