package server

import (
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/tree"
)

const (
	// batchBytesAim is the size beyond which a batch gets no further requests:
	// what queues while one batch is written is small, what queues while a
	// quorum is missing must not become one huge log entry.
	batchBytesAim = 1 << 20
	// bufferBytesStart is the first size of a batch's buffer; later ones start at
	// the size of the last batch.
	bufferBytesStart = 4 << 10
)

// outbox holds the stamped requests of this server's clients that are not yet
// proposed, encoded and in order, as the batches they will be.
type outbox struct {
	waiting atomic.Bool // something can be taken

	mu    sync.Mutex
	full  [][]byte // batches that got no further requests
	cur   []byte   // the batch being filled, with room for its header in front
	lastN int      // size of the batch taken last
}

// add appends one request, which it copies.
func (o *outbox) add(req *tree.Request) {
	o.mu.Lock()
	if o.cur == nil {
		o.cur = tree.AppendBatchHeader(make([]byte, 0, max(bufferBytesStart, o.lastN+o.lastN/4)), 0)
	}
	o.cur = tree.AppendRecord(o.cur, req)
	if len(o.cur) >= batchBytesAim {
		o.full = append(o.full, o.cur)
		o.cur = nil
	}
	o.mu.Unlock()
	o.waiting.Store(true)
}

// take removes the oldest batch and stamps it with time (ms), or returns nil.
func (o *outbox) take(time int64) []byte {
	if !o.waiting.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var b []byte
	if len(o.full) > 0 {
		b, o.full = o.full[0], o.full[1:]
	} else {
		b, o.cur = o.cur, nil
	}
	if len(o.full) == 0 && o.cur == nil {
		o.waiting.Store(false)
	}
	if b != nil {
		o.lastN = len(b)
		tree.AppendBatchHeader(b[:0], time)
	}
	return b
}
