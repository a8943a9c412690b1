package proposals

import (
	"cmp"
	"math"
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
	// crowdedRequestMin replaces LargeRequestMin while crowdedEntries full entries wait: otherwise the small requests of
	// one client would wait for all those of clients that send many just below LargeRequestMin.
	crowdedRequestMin = 8 << 10
	crowdedEntries    = 4
	// spareBuffers is how many buffers are kept: one for the entry being filled, and one for the entry
	// being written.
	spareBuffers = 2
)

// Options is what a Queue needs.
type Options struct {
	Now     func() int64 // a monotonic clock, ns
	Dropped func(n int)  // is called with the number of requests that are dropped because their client is gone
	// Settled is called with the number and the bytes of requests that Gone has counted, when they don't count any more.
	Settled   func(requests, bytes int64)
	LargeFrom int // the size (bytes) from which on a request is large; 0 means LargeRequestMin
	Forwarded int // bounds what Forward returns (bytes), at most ForwardedMax, which 0 means
}

// A Queue holds stamped requests, encoded and in order, already in the form of log entries: requests of this server's
// clients and, on a leader, requests that followers forward.
type Queue struct {
	now       func() int64
	dropped   func(n int)
	settled   func(requests, bytes int64)
	largeFrom int

	waiting atomic.Bool // something can be taken
	counts  atomic.Bool // inFlight or left holds something

	mu    sync.Mutex
	first []byte   // the entry that is taken before all others
	full  [][]byte // entries that get no further requests
	cur   []byte   // the entry being filled, with room for its head
	spare [][]byte // buffers for later entries, at most spareBuffers
	lastN int      // size of the entry taken last
	large largeLane
	since int64 // now (ns) when the oldest request not yet taken arrived, or time of the last take that left some

	inFlight   inFlight // bounds the large entries that are taken
	left       left
	firstSince int64 // now (ns) when the oldest request in first arrived

	took   int64              // number of entries taken, not counting first and large ones
	stale  map[int64]struct{} // cnxs of clients that are gone, whose requests are dropped
	staleQ []staleUntil       // the connections in stale, in the order in which they went

	forwarded inFlight // bounds what Forward returns; the quorum's loop owns it, and mu isn't needed
}

// A staleUntil is a connection whose client is gone, and the numbers (see Queue.took and large.took) of the last
// entries that may hold requests of it.
type staleUntil struct{ cnx, entry, large int64 }

// New returns an empty Queue.
func New(o Options) *Queue {
	return &Queue{
		now: o.Now, dropped: o.Dropped, settled: o.Settled, largeFrom: cmp.Or(o.LargeFrom, LargeRequestMin),
		inFlight:  inFlight{most: largeInFlightMax, patience: largeInFlightPatience},
		forwarded: inFlight{most: min(int64(cmp.Or(o.Forwarded, ForwardedMax)), ForwardedMax), patience: forwardedPatience},
	}
}

// Add appends a request of the server itself, which it copies.
func (p *Queue) Add(req *tree.Request) {
	p.mu.Lock()
	p.cur = tree.AppendRecord(p.room(), req)
	p.seal()
	p.mu.Unlock()
}

// AddRecords appends copies of requests that are already encoded as records, in as many entries as
// they need.
func (p *Queue) AddRecords(records []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var large []byte
	least := p.largeFrom
	if len(p.full) >= crowdedEntries {
		least = min(least, crowdedRequestMin)
	}
	if p.large.concerns(records, least) {
		records, large = p.large.split(records, least)
	}
	for len(records) > 0 {
		p.cur = p.room()
		head, rest := records, []byte(nil)
		if len(p.cur)+len(records) > batchBytesAim {
			head, rest = tree.CutRecords(records, batchBytesAim-len(p.cur))
		}
		p.cur = append(p.cur, head...)
		records = rest
		p.seal()
	}
	if len(large) > 0 {
		p.begin()
		p.large.add(large, p.last())
		p.waiting.Store(true)
	}
}

// AddFirst is AddRecords for requests that are taken before all waiting requests except those of
// earlier calls of AddFirst. Once these fill an entry, further ones wait with all others.
func (p *Queue) AddFirst(records []byte) {
	p.mu.Lock()
	if len(p.first) >= batchBytesAim {
		p.mu.Unlock()
		p.AddRecords(records)
		return
	}
	defer p.mu.Unlock()
	if p.first == nil {
		p.first, p.firstSince = AppendHead(nil, 0, 0, 0), p.now()
	}
	p.first = append(p.first, records...)
	p.waiting.Store(true)
}

// Waits returns how long (ns) the oldest request has waited, or 0 if none waits.
func (p *Queue) Waits(now int64) int64 {
	if !p.waiting.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := int64(0)
	if p.first != nil {
		waited = now - p.firstSince
	}
	if len(p.full) > 0 || p.cur != nil || len(p.large.entries) > 0 {
		waited = max(waited, now-p.since)
	}
	return waited
}

// begin notes the time if nothing waits but first requests.
func (p *Queue) begin() {
	if p.cur == nil && len(p.full) == 0 && len(p.large.entries) == 0 {
		p.since = p.now()
	}
}

// room returns the entry being filled, a new one if necessary.
func (p *Queue) room() []byte {
	p.begin()
	if n := len(p.spare); p.cur == nil && n > 0 {
		p.cur, p.spare = AppendHead(p.spare[n-1][:0], 0, 0, 0), p.spare[:n-1]
	}
	if p.cur == nil {
		return AppendHead(make([]byte, 0, max(bufferBytesStart, p.lastN+p.lastN/4)), 0, 0, 0)
	}
	return p.cur
}

func (p *Queue) seal() {
	if len(p.cur) >= batchBytesAim {
		p.full = append(p.full, p.cur)
		p.cur = nil
	}
	p.waiting.Store(true)
}

// Gone records that the client of connection cnx is gone, with so many requests that are neither applied nor dropped
// yet. They count until they are (Options.Settled), with their bytes by SizeOf. With drop, those that aren't taken yet
// never are. No request of the connection may be added later, and none may be applied between the counting and this
// call.
func (p *Queue) Gone(cnx, requests, bytes int64, drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := staleUntil{cnx, p.last(), p.large.took + int64(len(p.large.entries))}
	p.left.add(cnx, leftBy{load{requests, bytes}, until, p.now()})
	p.count()
	if !drop {
		return
	}
	if until.entry == p.took && len(p.large.entries) == 0 {
		if p.first == nil {
			return // nothing waits
		}
		until.entry++
	}
	if p.stale == nil {
		p.stale = map[int64]struct{}{}
	}
	p.stale[cnx] = struct{}{}
	p.staleQ = append(p.staleQ, until)
}

// count makes Applied look at each request while something has to be counted. mu is held.
func (p *Queue) count() { p.counts.Store(p.inFlight.bytes > 0 || p.left.total.requests > 0) }

// settle is called for each request of a gone client that is applied or dropped. mu is held.
func (p *Queue) settle(q *tree.Request) {
	if p.left.total.requests > 0 {
		p.less(p.left.settle(q, p.now()))
	}
}

// less reports requests of gone clients that don't count any more. mu is held.
func (p *Queue) less(by load) {
	if by.requests > 0 {
		p.settled(by.requests, by.bytes)
	}
}

// Forget stops to count the requests of gone clients of which none was applied for long.
func (p *Queue) Forget(now int64) { p.forget(now - leftPatience) }

// ForgetTaken stops to count the requests that are forwarded, and those of gone clients that are taken: a snapshot may
// contain them, and then they are never applied.
func (p *Queue) ForgetTaken() {
	p.forwarded.reset()
	p.forget(math.MaxInt64)
}

// forget stops to count the requests of gone clients that are taken, of which none was applied after the time since.
func (p *Queue) forget(since int64) {
	if !p.counts.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for cnx, by := range p.left.of { // any order: each by itself
		if p.taken(by.until) && by.since <= since {
			p.less(p.left.remove(cnx))
		}
	}
	p.count()
}

// taken reports whether all entries are taken that may hold requests of a gone client.
func (p *Queue) taken(until staleUntil) bool {
	return until.entry <= p.took && until.large <= p.large.took
}

// Forwarded returns the bytes of the requests that Forward has returned and that count.
func (p *Queue) Forwarded() int64 { return p.forwarded.bytes }

// Left returns the number and the bytes of the requests of gone clients that count.
func (p *Queue) Left() (requests, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left.total.requests, p.left.total.bytes
}

// last returns the number of the newest entry that isn't first or large.
func (p *Queue) last() int64 {
	last := p.took + int64(len(p.full))
	if p.cur != nil {
		last++
	}
	return last
}

// without returns the taken entry b without the requests of clients that are gone, and forgets
// clients without requests in later entries.
func (p *Queue) without(b []byte) []byte {
	left, dropped := tree.WithoutRecords(b[HeadSize:], func(q *tree.Request) bool {
		_, gone := p.stale[q.Cnx]
		gone = gone && q.Op != tree.OpEnter // OpEnter records are this server's own, and numbered
		if gone {
			p.settle(q)
		}
		return gone
	})
	if dropped > 0 {
		b = append(b[:HeadSize], left...)
		p.dropped(dropped)
	}
	n := 0
	for n < len(p.staleQ) && p.taken(p.staleQ[n]) {
		delete(p.stale, p.staleQ[n].cnx)
		n++
	}
	if p.staleQ = p.staleQ[n:]; len(p.staleQ) == 0 {
		p.stale, p.staleQ = nil, nil
	}
	return b
}

// Forward is Take for a follower, which hands the requests to the leader. While requests that it has returned take
// ForwardedMax bytes and are neither applied (Applied), nor part of a snapshot (ForgetTaken), nor forgotten (Clear), it
// returns only those of AddFirst.
func (p *Queue) Forward() (b []byte, waited int64) {
	switch {
	case !p.waiting.Load():
		return nil, 0
	case p.forwarded.full(p.now()):
		b, waited = p.takeFirst()
	default:
		b, waited = p.Take()
	}
	if b != nil {
		p.forwarded.note(b, p.now())
	}
	return b, waited
}

// takeFirst is Take for the requests of AddFirst alone.
func (p *Queue) takeFirst() (b []byte, waited int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		return nil, 0
	}
	if b, waited = p.takeOne(); len(b) <= HeadSize {
		return nil, 0
	}
	return b, waited
}

// Take removes the oldest entry and returns it, with its head not written yet, and how long
// (ns) it has waited. It returns nil if there is none.
func (p *Queue) Take() (b []byte, waited int64) {
	if !p.waiting.Load() {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) <= HeadSize { // all requests of an entry may be from clients that are gone
		if b, waited = p.takeOne(); b == nil {
			return nil, 0
		}
	}
	return b, waited
}

// takeOne takes one entry, which may turn out empty; mu is held.
func (p *Queue) takeOne() (b []byte, waited int64) {
	now, small := p.now(), len(p.full) > 0 || p.cur != nil
	first := p.first != nil
	large := !first && p.large.comesNext(p.took, small) && !p.inFlight.full(now)
	if !first && (small || large) {
		waited, p.since = now-p.since, now
	}
	switch {
	case first:
		b, p.first, waited = p.first, nil, now-p.firstSince
	case large:
		b = p.large.take()
	case len(p.full) > 0:
		b, p.full = p.full[0], p.full[1:]
		p.tookSmall(b)
	case p.cur != nil:
		b, p.cur = p.cur, nil
		p.tookSmall(b)
	}
	if b != nil && len(p.staleQ) > 0 {
		b = p.without(b)
	}
	if large {
		p.inFlight.note(b, now)
	}
	p.count()
	if p.first == nil && len(p.full) == 0 && p.cur == nil && len(p.large.entries) == 0 {
		p.waiting.Store(false)
		p.stale, p.staleQ = nil, nil
	}
	return b, waited
}

// Applied is called for each request that is applied.
func (p *Queue) Applied(q *tree.Request, now int64) {
	p.forwarded.applied(q, now)
	if !p.counts.Load() {
		return
	}
	p.mu.Lock()
	p.inFlight.applied(q, now)
	p.settle(q)
	p.count()
	p.mu.Unlock()
}

// tookSmall records that an entry of small requests was taken.
func (p *Queue) tookSmall(b []byte) {
	p.took++
	p.lastN, p.large.turn = len(b), true
}

// Reuse takes back the memory of an entry that is no longer used.
func (p *Queue) Reuse(b []byte) {
	if cap(b) == 0 || cap(b) > bufferKeepBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < spareBuffers {
		p.spare = append(p.spare, b)
	}
}

// Clear drops everything.
func (p *Queue) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.full, p.cur, p.stale, p.staleQ = nil, nil, nil, nil, nil
	p.less(p.left.total)
	p.large, p.left = largeLane{}, left{}
	p.inFlight.reset()
	p.forwarded.reset()
	p.count()
	p.waiting.Store(false)
}

// Memory returns the memory (bytes) that the waiting requests use.
func (p *Queue) Memory() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int64(cap(p.cur) + cap(p.first))
	for _, b := range p.full {
		n += int64(cap(b))
	}
	for _, e := range p.large.entries {
		n += int64(cap(e.b))
	}
	return n
}
