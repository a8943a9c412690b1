package zk

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// A call is one request: encoded by its caller, queued and sent by the session, completed by the connection's reader or
// by the end of the session. A completed call doesn't change.
type call struct {
	op   jute.Op
	xid  int32
	path string // as the caller gave it, for errors; "" if the operation has no path
	req  []byte // the whole frame; the xid is filled in when it is sent

	// pin, if not nil, ties the call to one connection (see Pipeline).
	pin *pin

	// watch, if not nil, is registered once a reply says that the server has set it.
	watch *Watch

	abs string // the path with the chroot before it; set for watch calls only

	ops []MultiOp // of a multi, with the caller's paths

	seen *observation // for Hooks.Request; nil if there is no such hook

	cred *Auth // of an auth call: kept for later connections once accepted

	res result
	err error

	pool *sync.Pool // release puts the call there

	// done receives a token, or is closed if shared, once res and err are set. It is nil if no caller waits for the call.
	done   chan struct{}
	shared bool

	// drop, if not 0, names the watches of abs that end when the reply is OK.
	drop WatcherType
}

// A result holds the fields of every kind of reply. The operation decides which of them are set.
type result struct {
	path  string
	stat  Stat
	data  []byte
	names []string
	acl   []ACL
	multi []jute.MultiResult
	ids   []Identity
	count int32
}

// reqUsual holds most requests; reqKept bounds the buffer a recycled call keeps.
const (
	reqUsual = 128
	reqKept  = 4 << 10
)

// newCallPool returns a pool of calls for reuse. Only calls whose caller has waited for the end are put into it. Their
// buffers and channels are most of a request's allocations.
func newCallPool() *sync.Pool {
	pool := new(sync.Pool)
	pool.New = func() any { return &call{pool: pool, done: make(chan struct{}, 1)} }
	return pool
}

// release recycles k, which must have completed and not be shared.
func (k *call) release() {
	req := k.req[:0]
	if cap(req) > reqKept {
		req = nil
	}
	*k = call{pool: k.pool, req: req, done: k.done}
	k.pool.Put(k)
}

// finish wakes the caller that waits for k.
func (k *call) finish() {
	switch {
	case k.done == nil:
	case k.shared:
		close(k.done)
	default:
		k.done <- struct{}{}
	}
}

// begin starts the frame; the caller appends the body and calls end.
func (k *call) begin() []byte {
	if k.req == nil {
		k.req = make([]byte, 0, reqUsual)
	}
	b, _ := jute.BeginFrame(k.req[:0])
	h := jute.RequestHeader{Op: k.op}
	return h.Append(b)
}

// end completes the frame; b is what begin returned, with the body appended.
func (k *call) end(b []byte) { k.req = jute.EndFrame(b, 0) }

// decode reads the reply's body into k.res. If owned, k.res may refer to body; if not, k.res gets copies.
func (k *call) decode(body []byte, owned bool) error {
	switch k.op {
	case jute.OpDelete, jute.OpSync, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch, jute.OpAuth,
		jute.OpCloseSession:
		return nil
	case jute.OpExists, jute.OpSetData, jute.OpSetACL, jute.OpGetAllChildrenNumber:
	default:
		if !owned {
			body = bytes.Clone(body)
		}
	}
	var d jute.Decoder
	d.Reset(body)
	r := &k.res
	switch k.op {
	case jute.OpCreate:
		r.path = d.String()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.path = d.String()
		r.stat.Decode(&d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		r.stat.Decode(&d)
	case jute.OpGetData, jute.OpReconfig:
		r.data = d.Buffer()
		r.stat.Decode(&d)
	case jute.OpGetACL:
		r.acl = jute.DecodeACLs(&d)
		r.stat.Decode(&d)
	case jute.OpGetChildren2:
		r.names = d.Strings()
		r.stat.Decode(&d)
	case jute.OpGetEphemerals:
		r.names = d.Strings()
	case jute.OpGetAllChildrenNumber:
		r.count = d.Int()
	case jute.OpWhoAmI:
		var who jute.WhoAmIResponse
		who.Decode(&d)
		r.ids = who.Clients
	case jute.OpMulti, jute.OpMultiRead:
		var err error
		if r.multi, err = jute.DecodeMultiResponse(&d); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no reply is known for %s", k.op)
	}
	return d.Err()
}

// A callQueue is a first-in first-out ring of calls. Its size is bounded by the
// session's MaxOutstanding plus its own few calls.
type callQueue struct {
	ring []*call // the length is a power of two
	head int
	n    int
}

func (q *callQueue) at(i int) *call { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *callQueue) push(k *call) {
	if q.n == len(q.ring) {
		grown := make([]*call, max(16, 2*q.n))
		for i := range q.n {
			grown[i] = q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = k
	q.n++
}

func (q *callQueue) pop() *call {
	k := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return k
}

// remove removes the i-th call.
func (q *callQueue) remove(i int) {
	mask := len(q.ring) - 1
	for ; i < q.n-1; i++ {
		q.ring[(q.head+i)&mask] = q.ring[(q.head+i+1)&mask]
	}
	q.ring[(q.head+q.n-1)&mask] = nil
	q.n--
}
