package serverid

import "sync/atomic"

// NewIDs returns a source of ids for sessions and connections. The ids are unique in the cluster,
// also across restarts, if ms (since 1970) grows between them. As in Apache, the high byte is the
// server's id, the 40 bits below it count milliseconds, and the low 16 bits count ids. More than
// 65,536 ids in a millisecond borrow from the next milliseconds, which are long past at the next
// start. Apache takes the milliseconds from a monotonic clock, but that starts over with each boot,
// so wall-clock time is used here.
func NewIDs(server uint64, ms int64) func() int64 {
	var next atomic.Int64
	next.Store(int64(uint64(ms)<<24>>8 | server<<56))
	return func() int64 {
		for { // never 0, nor the one value that marks containers
			if id := next.Add(1) - 1; id != 0 && id != -1<<63 {
				return id
			}
		}
	}
}
