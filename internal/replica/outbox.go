package replica

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/tree"
)

const (
	// batchBytesAim is the size beyond which a batch gets no further requests:
	// what queues while one batch is written is small, what queues while a
	// quorum is missing must not become one huge log entry. So a batch is smaller
	// than the aim and one request.
	batchBytesAim = 1 << 20
	// bufferBytesStart is the first size of a batch's buffer; later ones start at
	// the size of the last batch.
	bufferBytesStart = 4 << 10
	// bufferKeepBytes is the largest buffer that is used again.
	bufferKeepBytes = 256 << 10
	// spareBuffers is one for the entry that fills while another is written, and
	// that other one.
	spareBuffers = 2
)

// A log entry begins with the index of an earlier entry and the digest of the
// leader's state after that one (D16), before the tree's batch.
//
//	entry := long index | long digest | batch
const digestSize = 16

// outbox holds stamped requests, encoded and in order, as the log entries they
// will be: those of this server's clients and, on a leader, those that
// followers forward.
type outbox struct {
	waiting atomic.Bool // something can be taken

	mu    sync.Mutex
	full  [][]byte // entries that get no further requests
	cur   []byte   // the entry being filled, with room for what precedes the requests
	spare [][]byte // memory for later ones, at most spareBuffers
	lastN int      // size of the entry taken last
	now   func() int64
	since int64 // now (ns) when the oldest request came that isn't taken, or the last take left some
}

// headSize is what precedes the requests of an entry.
var headSize = len(appendHead(nil, 0, 0, 0))

func appendHead(b []byte, time int64, index, digest uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, digest)
	return tree.AppendBatchHeader(b, time)
}

// add appends one request, which it copies.
func (o *outbox) add(req *tree.Request) {
	o.mu.Lock()
	o.cur = tree.AppendRecord(o.room(), req)
	o.seal()
	o.mu.Unlock()
}

// addRecords appends requests that are records already, and copies them, to as many
// entries as they need.
func (o *outbox) addRecords(records []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(records) > 0 {
		o.cur = o.room()
		head, rest := records, []byte(nil)
		if len(o.cur)+len(records) > batchBytesAim {
			head, rest = tree.CutRecords(records, batchBytesAim-len(o.cur))
		}
		o.cur = append(o.cur, head...)
		records = rest
		o.seal()
	}
}

// room returns the entry being filled.
func (o *outbox) room() []byte {
	if o.cur == nil && len(o.full) == 0 {
		o.since = o.now()
	}
	if n := len(o.spare); o.cur == nil && n > 0 {
		o.cur, o.spare = appendHead(o.spare[n-1][:0], 0, 0, 0), o.spare[:n-1]
	}
	if o.cur == nil {
		return appendHead(make([]byte, 0, max(bufferBytesStart, o.lastN+o.lastN/4)), 0, 0, 0)
	}
	return o.cur
}

func (o *outbox) seal() {
	if len(o.cur) >= batchBytesAim {
		o.full = append(o.full, o.cur)
		o.cur = nil
	}
	o.waiting.Store(true)
}

// take removes the oldest entry, whose head is still to be written, or returns
// nil, and how long (ns) that has waited.
func (o *outbox) take() (b []byte, waited int64) {
	if !o.waiting.Load() {
		return nil, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	waited, o.since = now-o.since, now
	if len(o.full) > 0 {
		b, o.full = o.full[0], o.full[1:]
	} else {
		b, o.cur = o.cur, nil
	}
	if len(o.full) == 0 && o.cur == nil {
		o.waiting.Store(false)
	}
	o.lastN = len(b)
	return b, waited
}

// reuse takes back the memory of an entry that nobody needs any more.
func (o *outbox) reuse(b []byte) {
	if cap(b) == 0 || cap(b) > bufferKeepBytes {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.spare) < spareBuffers {
		o.spare = append(o.spare, b)
	}
}

// clear drops everything.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.full, o.cur = nil, nil
	o.waiting.Store(false)
}
