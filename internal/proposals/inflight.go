package proposals

import "github.com/zooid-project/zooid/internal/tree"

const (
	// largeInFlightMax bounds the bytes of large requests that are proposed, or forwarded to the leader, and not applied
	// here yet. All later requests wait for these.
	largeInFlightMax = 2 << 20
	// largeInFlightPatience is after how long (ns) without progress they are counted anew: a leader may have dropped
	// some, which are then never applied.
	largeInFlightPatience = int64(2e9)
	// ForwardedMax bounds the bytes of all requests that are forwarded and not applied here yet: the leader, which can't
	// refuse them, holds them for each of its followers. It is far more than the clients of one server write during the
	// time that an entry takes.
	ForwardedMax = 8 << 20
	// forwardedPatience is largeInFlightPatience for forwarded requests. A change of leaders begins their count anew, so
	// it only ends a wait that should not be.
	forwardedPatience = int64(30e9)
)

// inFlight counts requests that were proposed or forwarded and aren't applied here yet.
type inFlight struct {
	most     int64           // bytes
	patience int64           // ns
	bytes    int64           // by SizeOf
	of       map[int64]int64 // bytes by connection
	since    int64           // now (ns) of the last progress
}

// full reports whether no more may be taken at present.
func (f *inFlight) full(now int64) bool {
	if f.bytes >= f.most && now-f.since >= f.patience {
		f.reset()
	}
	return f.bytes >= f.most
}

// reset begins the count anew.
func (f *inFlight) reset() { f.bytes, f.of, f.since = 0, nil, 0 }

// note counts the requests of an entry.
func (f *inFlight) note(entry []byte, now int64) {
	if f.of == nil {
		f.of = map[int64]int64{}
	}
	if f.bytes == 0 {
		f.since = now
	}
	var q tree.Request
	for batch := tree.RecordsOf(entry[HeadSize:]); batch.Next(&q); {
		n := SizeOf(&q)
		f.of[q.Cnx] += n
		f.bytes += n
	}
}

// applied is called for each request that is applied.
func (f *inFlight) applied(q *tree.Request, now int64) {
	if f.bytes == 0 {
		return
	}
	left, ok := f.of[q.Cnx]
	if !ok {
		return
	}
	n := min(left, SizeOf(q)) // one that was sent before a change of leaders may be applied as well
	f.bytes -= n
	f.since = now
	if left == n {
		delete(f.of, q.Cnx)
	} else {
		f.of[q.Cnx] = left - n
	}
}
