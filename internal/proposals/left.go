package proposals

import "github.com/zooid-project/zooid/internal/tree"

// SizeOf returns what a request counts, in bytes, until it is answered: its record, and some of what refers to it.
func SizeOf(q *tree.Request) int64 { return int64(20 + tree.RecordSize(q)) }

// leftPatience is after how long (ns) the requests of a gone client are forgotten of which none was applied, though all
// were taken: the leader may have dropped them, or they came with a snapshot.
const leftPatience = int64(30e9)

// left counts the requests of clients that are gone, until they are applied or dropped: until then they use memory,
// here or on the way to the leader, as those of connected clients do. Otherwise clients that send, leave and come back
// would make any number of them wait.
type left struct {
	of    map[int64]leftBy // by connection
	total load
}

// A load is a number of requests and their bytes.
type load struct{ requests, bytes int64 }

// leftBy is what a connection has left.
type leftBy struct {
	load
	until staleUntil
	since int64 // now (ns) when it was left, or when one of its requests was applied
}

// add counts the requests of a connection.
func (l *left) add(cnx int64, by leftBy) {
	if by.requests == 0 {
		return
	}
	if l.of == nil {
		l.of = map[int64]leftBy{}
	}
	l.of[cnx] = by
	l.total.requests += by.requests
	l.total.bytes += by.bytes
}

// settle is called for each request that is applied or dropped, and returns what doesn't count any more.
func (l *left) settle(q *tree.Request, now int64) (less load) {
	by, ok := l.of[q.Cnx]
	if !ok || q.Op == tree.OpEnter { // OpEnter records are this server's own
		return less
	}
	if by.requests == 1 {
		return l.remove(q.Cnx)
	}
	less = load{1, min(SizeOf(q), by.bytes)}
	by.less(less)
	by.since = now
	l.of[q.Cnx] = by
	l.total.less(less)
	return less
}

// remove stops to count the requests of a connection, and returns them.
func (l *left) remove(cnx int64) load {
	less := l.of[cnx].load
	delete(l.of, cnx)
	l.total.less(less)
	return less
}

func (l *load) less(by load) { l.requests, l.bytes = l.requests-by.requests, l.bytes-by.bytes }
