package replica

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/tree"
)

const (
	// batchBytesAim is the size beyond which a batch gets no further requests. Few requests queue up
	// while one batch is written, but those that queue up without a quorum must not become one huge
	// log entry. A batch is smaller than the aim plus one request.
	batchBytesAim = 1 << 20
	// bufferBytesStart is the least initial size of a batch's buffer; later buffers start at the size
	// of the last batch.
	bufferBytesStart = 4 << 10
	// bufferKeepBytes is the largest buffer that is reused.
	bufferKeepBytes = 256 << 10
	// LargeRequestMin is the size (bytes) from which on a request, with its identities, takes turns with those of other
	// connections (largeLane).
	LargeRequestMin = 64 << 10
	// spareBuffers is how many buffers are kept: one for the entry being filled, and one for the entry
	// being written.
	spareBuffers = 2
)

// digestSize is the size of the fields before the tree's batch in a log entry: the index of an
// earlier entry and the digest of the leader's state after that entry (D16).
//
//	entry := long index | long digest | batch
const digestSize = 16

// proposals holds stamped requests, encoded and in order, already in the form of log entries: requests of this server's
// clients and, on a leader, requests that followers forward.
type proposals struct {
	waiting   atomic.Bool // something can be taken
	largeFrom int         // LargeRequestMin, unless a test has another one

	mu    sync.Mutex
	first []byte   // the entry that is taken before all others
	full  [][]byte // entries that get no further requests
	cur   []byte   // the entry being filled, with room for its head
	spare [][]byte // buffers for later entries, at most spareBuffers
	lastN int      // size of the entry taken last
	now   func() int64
	large largeLane
	// inFlight bounds the large entries that are taken; counts is whether it holds any.
	inFlight largeInFlight
	counts   atomic.Bool
	since    int64 // now (ns) when the oldest request not yet taken arrived, or time of the last take that left some

	firstSince int64 // now (ns) when the oldest request in first arrived

	took   int64              // number of entries taken, not counting first and large ones
	stale  map[int64]struct{} // cnxs of clients that are gone, whose requests are dropped
	staleQ []staleUntil       // the connections in stale, in the order in which they went
	// dropped is called with the number of requests dropped.
	dropped func(n int)
}

// A staleUntil is a connection whose client is gone, and the numbers (see proposals.took and large.took) of the last
// entries that may hold requests of it.
type staleUntil struct{ cnx, entry, large int64 }

// headSize is the size of an entry's head, before the requests.
var headSize = len(appendHead(nil, 0, 0, 0))

func appendHead(b []byte, time int64, index, digest uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, digest)
	return tree.AppendBatchHeader(b, time)
}

// add appends a request of the server itself, which it copies.
func (o *proposals) add(req *tree.Request) {
	o.mu.Lock()
	o.cur = tree.AppendRecord(o.room(), req)
	o.seal()
	o.mu.Unlock()
}

// addRecords appends copies of requests that are already encoded as records, in as many entries as
// they need.
func (o *proposals) addRecords(records []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var large []byte
	if o.large.concerns(records, o.largeFrom) {
		records, large = o.large.split(records, o.largeFrom)
	}
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
	if len(large) > 0 {
		o.begin()
		o.large.add(large, o.last())
		o.waiting.Store(true)
	}
}

// addFirst is addRecords for requests that are taken before all waiting requests except those of
// earlier calls of addFirst. Once these fill an entry, further ones wait with all others.
func (o *proposals) addFirst(records []byte) {
	o.mu.Lock()
	if len(o.first) >= batchBytesAim {
		o.mu.Unlock()
		o.addRecords(records)
		return
	}
	defer o.mu.Unlock()
	if o.first == nil {
		o.first, o.firstSince = appendHead(nil, 0, 0, 0), o.now()
	}
	o.first = append(o.first, records...)
	o.waiting.Store(true)
}

// waits returns how long (ns) the oldest request has waited, or 0 if none waits.
func (o *proposals) waits(now int64) int64 {
	if !o.waiting.Load() {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	waited := int64(0)
	if o.first != nil {
		waited = now - o.firstSince
	}
	if len(o.full) > 0 || o.cur != nil || len(o.large.entries) > 0 {
		waited = max(waited, now-o.since)
	}
	return waited
}

// begin notes the time if nothing waits but first requests.
func (o *proposals) begin() {
	if o.cur == nil && len(o.full) == 0 && len(o.large.entries) == 0 {
		o.since = o.now()
	}
}

// room returns the entry being filled, a new one if necessary.
func (o *proposals) room() []byte {
	o.begin()
	if n := len(o.spare); o.cur == nil && n > 0 {
		o.cur, o.spare = appendHead(o.spare[n-1][:0], 0, 0, 0), o.spare[:n-1]
	}
	if o.cur == nil {
		return appendHead(make([]byte, 0, max(bufferBytesStart, o.lastN+o.lastN/4)), 0, 0, 0)
	}
	return o.cur
}

func (o *proposals) seal() {
	if len(o.cur) >= batchBytesAim {
		o.full = append(o.full, o.cur)
		o.cur = nil
	}
	o.waiting.Store(true)
}

// drop records that the client of connection cnx is gone: its waiting requests are not taken.
// No request of the connection may be added later.
func (o *proposals) drop(cnx int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last()
	if last == o.took && len(o.large.entries) == 0 {
		if o.first == nil {
			return // nothing waits
		}
		last++
	}
	if o.stale == nil {
		o.stale = map[int64]struct{}{}
	}
	o.stale[cnx] = struct{}{}
	o.staleQ = append(o.staleQ, staleUntil{cnx, last, o.large.took + int64(len(o.large.entries))})
}

// last returns the number of the newest entry that isn't first or large.
func (o *proposals) last() int64 {
	last := o.took + int64(len(o.full))
	if o.cur != nil {
		last++
	}
	return last
}

// without returns the taken entry b without the requests of clients that are gone, and forgets
// clients without requests in later entries.
func (o *proposals) without(b []byte) []byte {
	left, dropped := tree.WithoutRecords(b[headSize:], func(q *tree.Request) bool {
		_, gone := o.stale[q.Cnx]
		return gone && q.Op != tree.OpEnter // OpEnter records are this server's own, and numbered
	})
	if dropped > 0 {
		b = append(b[:headSize], left...)
		o.dropped(dropped)
	}
	n := 0
	for n < len(o.staleQ) && o.staleQ[n].entry <= o.took && o.staleQ[n].large <= o.large.took {
		delete(o.stale, o.staleQ[n].cnx)
		n++
	}
	if o.staleQ = o.staleQ[n:]; len(o.staleQ) == 0 {
		o.stale, o.staleQ = nil, nil
	}
	return b
}

// take removes the oldest entry and returns it, with its head not written yet, and how long
// (ns) it has waited. It returns nil if there is none.
func (o *proposals) take() (b []byte, waited int64) {
	if !o.waiting.Load() {
		return nil, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(b) <= headSize { // all requests of an entry may be from clients that are gone
		if b, waited = o.takeOne(); b == nil {
			return nil, 0
		}
	}
	return b, waited
}

// takeOne takes one entry, which may turn out empty; mu is held.
func (o *proposals) takeOne() (b []byte, waited int64) {
	now, small := o.now(), len(o.full) > 0 || o.cur != nil
	first := o.first != nil
	large := !first && o.large.comesNext(o.took, small) && !o.inFlight.full(now)
	if !first && (small || large) {
		waited, o.since = now-o.since, now
	}
	switch {
	case first:
		b, o.first, waited = o.first, nil, now-o.firstSince
	case large:
		b = o.large.take()
	case len(o.full) > 0:
		b, o.full = o.full[0], o.full[1:]
		o.tookSmall(b)
	case o.cur != nil:
		b, o.cur = o.cur, nil
		o.tookSmall(b)
	}
	if b != nil && len(o.staleQ) > 0 {
		b = o.without(b)
	}
	if large {
		o.inFlight.note(b, now)
		o.counts.Store(o.inFlight.bytes > 0)
	}
	if o.first == nil && len(o.full) == 0 && o.cur == nil && len(o.large.entries) == 0 {
		o.waiting.Store(false)
		o.stale, o.staleQ = nil, nil
	}
	return b, waited
}

// applied is called for each request that is applied.
func (o *proposals) applied(q *tree.Request, now int64) {
	if !o.counts.Load() {
		return
	}
	o.mu.Lock()
	o.inFlight.applied(q, now)
	o.counts.Store(o.inFlight.bytes > 0)
	o.mu.Unlock()
}

// tookSmall records that an entry of small requests was taken.
func (o *proposals) tookSmall(b []byte) {
	o.took++
	o.lastN, o.large.turn = len(b), true
}

// reuse takes back the memory of an entry that is no longer used.
func (o *proposals) reuse(b []byte) {
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
func (o *proposals) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first, o.full, o.cur, o.stale, o.staleQ = nil, nil, nil, nil, nil
	o.large, o.inFlight = largeLane{}, largeInFlight{}
	o.counts.Store(false)
	o.waiting.Store(false)
}
