package proposals

import "github.com/zooid-project/zooid/internal/tree"

const (
	// largeInFlightMax bounds the bytes of large requests that are proposed, or forwarded to the leader, and not applied
	// here yet. All later requests wait for these, and the leader holds what its followers forward.
	largeInFlightMax = 2 << 20
	// largeInFlightPatience is after how long (ns) without progress they are counted anew: a leader may have dropped
	// some, which are then never applied.
	largeInFlightPatience = int64(2e9)
)

// largeInFlight counts the large requests that were proposed or forwarded and aren't applied here yet.
type largeInFlight struct {
	bytes int
	of    map[int64]int // bytes by connection
	since int64         // now (ns) of the last progress
}

// full reports whether no more may be taken at present.
func (f *largeInFlight) full(now int64) bool {
	if f.bytes >= largeInFlightMax && now-f.since >= largeInFlightPatience {
		*f = largeInFlight{}
	}
	return f.bytes >= largeInFlightMax
}

// note counts the requests of an entry with large ones.
func (f *largeInFlight) note(entry []byte, now int64) {
	if f.of == nil {
		f.of = map[int64]int{}
	}
	if f.bytes == 0 {
		f.since = now
	}
	var q tree.Request
	for batch := tree.RecordsOf(entry[HeadSize:]); batch.Next(&q); {
		f.of[q.Cnx] += len(q.Body)
		f.bytes += len(q.Body)
	}
}

// applied is called for each request that is applied.
func (f *largeInFlight) applied(q *tree.Request, now int64) {
	left, ok := f.of[q.Cnx]
	if !ok {
		return
	}
	n := min(left, len(q.Body)) // one that was sent before a change of leaders may be applied as well
	f.bytes -= n
	f.since = now
	if f.of[q.Cnx] -= n; f.of[q.Cnx] == 0 {
		delete(f.of, q.Cnx)
	}
}
