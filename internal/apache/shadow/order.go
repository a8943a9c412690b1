package shadow

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A kind classifies an exchange.
type kind uint8

const (
	requested kind = iota // a request of a client's, with the primary's reply
	detached              // a connection has ended, but not its session
	expired               // the primary has ended the session
)

// An exchange is a request with the primary's reply, or a session event that the shadow must see at the same point.
type exchange struct {
	kind    kind
	c       *conn
	s       *session
	op      jute.Op
	xid     int32
	request []byte // the request's record
	stamp   uint64 // when it was sent

	answered bool
	zxid     int64
	code     jute.Code
	reply    []byte              // the reply's record
	events   []jute.WatcherEvent // events that came before the reply
	came     uint64              // stamp at the reply's arrival
	at       time.Time           // time of the reply's arrival
	seq      uint64              // order in which exchanges became complete
	late     bool                // an exchange with a higher zxid has already been played
}

// write reports whether the exchange has changed the primary's state at its zxid.
func (x *exchange) write() bool {
	return x.kind == requested && x.op.IsWrite() && x.code == jute.OK
}

// size returns about how much memory the exchange takes.
func (x *exchange) size() int { return exchangeBytes + len(x.request) + len(x.reply) }

// exchangeBytes is the memory of an exchange without its records.
const exchangeBytes = 256

// A queue holds complete exchanges, as a heap in playing order.
type queue []*exchange

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.zxid != b.zxid {
		return a.zxid < b.zxid
	}
	if a.write() != b.write() {
		return a.write()
	}
	return cmp.Less(a.seq, b.seq)
}

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*exchange)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}

// enqueue adds a complete exchange. The caller holds p.mu.
func (p *Proxy) enqueue(x *exchange) {
	p.seq++
	x.seq = p.seq
	heap.Push(&p.queue, x)
	p.poke()
}

// blocker returns a connection that may still get a reply with a lower zxid than x, or nil. The caller holds p.mu.
func (p *Proxy) blocker(x *exchange) *conn {
	for c := range p.waiting {
		if c.off != "" || c.after == nil && c.last >= x.zxid {
			continue
		}
		for _, u := range c.open {
			if u.op == jute.OpAuth { // an auth request is answered out of turn, and its reply shows no state
				continue
			}
			if u.stamp < x.came && !u.answered || u.answered && u.zxid <= x.zxid {
				return c
			}
		}
	}
	return nil
}

// holdMax is how long an exchange waits for another connection's reply that may have to come first.
const holdMax = 10 * time.Second

// batchMax bounds the reads that go to the shadow together.
const batchMax = 64

// next removes from the queue what can be played together: one exchange, or several reads in a row. It returns nothing
// if the first one must wait.
func (p *Proxy) next() (batch []*exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 && len(batch) < batchMax {
		x := p.queue[0]
		alone := x.kind != requested || x.op.IsWrite()
		if alone && len(batch) > 0 {
			break
		}
		if c := p.blocker(x); c != nil {
			if len(batch) == 0 && time.Since(x.at) > holdMax {
				c.stop("the primary hasn't answered in time, so the order isn't known")
				continue
			}
			break
		}
		heap.Pop(&p.queue)
		if x.s.ended {
			if x.c != nil {
				x.c.release(x)
			}
			continue
		}
		p.flying++
		x.late = x.zxid < p.played && x.kind == requested
		p.played = max(p.played, x.zxid)
		batch = append(batch, x)
		if alone {
			break
		}
	}
	return batch
}

// restore makes the queue a heap again after exchanges have been removed.
func (q *queue) restore() { heap.Init(q) }
