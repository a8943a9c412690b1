package check

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// The sweep knows long in advance which records it will need: those of the next items. So a second goroutine decodes
// them, a few stretches of items ahead, and leaves the model to the first. What the second goroutine reads doesn't
// change during the sweep. Nodes do change, but it only passes their pointers on.

const (
	// stretchItems is how many items are passed at once: enough to make passing cheap, and few enough to stay in the
	// processor's cache.
	stretchItems = 512
	// stretchesMax is the number of stretches: one in use, the others ahead.
	stretchesMax = 4
)

// A reading is the decoded content of one request and its reply. Unless there is a mismatch, the sweep reads nothing
// else, since the events are far apart in memory.
type reading struct {
	o       *op            // nil for a log entry without a client's journal
	req     *history.Event // nil if o is
	conn    *conn          // nil if o is
	sent    int64          // the time of the request
	kind    jute.Op
	invalid jute.Code // the code of a write or multiRead that can't be decoded
	ids     int32     // number of identities of the connection
	watch   bool      // the read sets a watch
	forged  bool      // the log entry differs from the request that its client sent

	at  *node          // the first node that the request names
	ops []jute.MultiOp // of a write or multiRead, one unless it is a multi
	shown
	results []jute.MultiResult // of a multi or multiRead
}

// identities returns the identities of the connection.
func (w *reading) identities() []jute.ID {
	if w.conn == nil {
		return nil
	}
	return w.conn.ids[:w.ids]
}

// shown is the content of a reply. The operation determines which fields are set.
type shown struct {
	rep   *history.Event // nil if there is none
	zxid  int64
	code  jute.Code
	part  int32 // which of a multiRead's results, from 1
	count int32
	path  string
	data  []byte
	kids  nameSet
	stat  jute.Stat
	bad   error // the record is cut short
}

// room is memory for data without a fixed size.
type room struct {
	ops     []jute.MultiOp
	results []jute.MultiResult
}

// A reader decodes items. Only one goroutine may use it.
type reader struct {
	c   *checker
	dec jute.Decoder
	room
}

// item decodes the records of an item.
func (r *reader) item(it item, w *reading) {
	if it.ref >= 0 {
		r.op(&r.c.ops[it.ref], w)
		return
	}
	e := &r.c.log[^it.ref]
	*w = reading{}
	author := r.c.authors[^it.ref]
	if author < 0 {
		r.write(e.Op, e.Body, w)
		return
	}
	r.author(&r.c.ops[author], w)
	if w.forged = w.kind != e.Op || string(w.req.Body) != string(e.Body); w.forged {
		r.write(e.Op, e.Body, w)
	} else {
		r.request(w)
	}
	if w.o.rep >= 0 && w.o.zxid == e.Zxid {
		r.reply(w)
	}
}

func (r *reader) op(o *op, w *reading) {
	*w = reading{}
	r.author(o, w)
	r.request(w)
	if o.rep >= 0 {
		r.reply(w)
	}
}

// author sets the fields for the sender of a request and its time.
func (r *reader) author(o *op, w *reading) {
	w.o, w.req, w.kind = o, &r.c.h.Events[o.req], o.kind
	w.conn, w.ids, w.sent = o.conn, o.ids, w.req.Time
}

// request decodes w.req.
func (r *reader) request(w *reading) {
	t := &r.c.named
	if nodes := t.nodesOf(w.o.id); len(nodes) > 0 {
		w.at = nodes[0]
	}
	switch {
	case w.kind == jute.OpMulti, w.kind == jute.OpMultiRead:
		m := &t.multis[t.of[w.o.id].multi]
		if w.ops = m.ops; m.err != nil {
			w.invalid = jute.ErrMarshallingError
		}
	case w.kind.MayWatch():
		r.dec.Reset(w.req.Body)
		_ = r.dec.String()
		w.watch = r.dec.Bool() && r.dec.Err() == nil
	case w.kind.IsWrite():
		r.write(w.kind, w.req.Body, w)
	}
}

// write decodes a write's request, except for rare kinds, which the model decodes itself.
func (r *reader) write(kind jute.Op, body []byte, w *reading) {
	switch kind {
	case jute.OpCreateSession, jute.OpCloseSession, jute.OpDeleteContainer, jute.OpSetACL, OpRestore:
		return
	}
	from := len(r.ops)
	r.dec.Reset(body)
	r.ops, w.invalid = decodeOps(r.ops, kind, &r.dec)
	w.ops = r.ops[from:len(r.ops):len(r.ops)]
}

// reply decodes the reply, which must exist.
func (r *reader) reply(w *reading) {
	w.rep = &r.c.h.Events[w.o.rep]
	w.zxid, w.code = w.o.zxid, w.o.code
	if w.code != jute.OK {
		return
	}
	d := &r.dec
	d.Reset(w.rep.Body)
	switch w.kind {
	case jute.OpGetData:
		w.data = d.Buffer()
		w.stat.Decode(d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		w.stat.Decode(d)
	case jute.OpGetACL:
		jute.DecodeACLs(d) // readACL decodes them
		w.stat.Decode(d)
	case jute.OpGetChildren, jute.OpGetChildren2:
		for range max(d.Count(4), 0) {
			w.kids.add(hashName(d.String()))
		}
		if w.kind == jute.OpGetChildren2 {
			w.stat.Decode(d)
		}
	case jute.OpGetAllChildrenNumber:
		w.count = d.Int()
	case jute.OpCreate, jute.OpSync:
		w.path = d.String()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		w.path = d.String()
		w.stat.Decode(d)
	case jute.OpMulti, jute.OpMultiRead:
		from := len(r.results)
		r.results, w.bad = jute.DecodeMultiResponseInto(r.results, d)
		w.results = r.results[from:len(r.results):len(r.results)]
	}
	if w.bad == nil {
		w.bad = d.Err()
	}
}

// A stretch is a sequence of decoded items.
type stretch struct {
	list []reading
	room room
	fail error // the reader's own failure
}

// prefetch decodes items into the stretches from lent and sends them to ready in order, until everything is decoded or
// lent is closed.
func (c *checker) prefetch(items []item, lent <-chan *stretch, ready chan<- *stretch) {
	defer close(ready)
	r := &reader{c: c}
	for len(items) > 0 {
		s, ok := <-lent
		if !ok {
			return
		}
		n := min(stretchItems, len(items))
		s.decode(r, items[:n])
		items = items[n:]
		ready <- s
	}
}

func (s *stretch) decode(r *reader, items []item) {
	defer func() {
		if failure := recover(); failure != nil {
			s.fail = fmt.Errorf("prefetch the history: %v", failure)
		}
	}()
	s.list = s.list[:len(items)]
	r.room = room{s.room.ops[:0], s.room.results[:0]}
	for i := range items {
		r.item(items[i], &s.list[i])
	}
	s.room = r.room
}

// eachReading calls do for all items in order.
func (c *checker) eachReading(items []item, do func(i int, w *reading)) {
	lent, ready := make(chan *stretch, stretchesMax), make(chan *stretch, stretchesMax)
	defer close(lent)
	for range stretchesMax {
		lent <- &stretch{list: make([]reading, 0, stretchItems)}
	}
	go c.prefetch(items, lent, ready)
	at := 0
	for s := range ready {
		if s.fail != nil {
			panic(s.fail)
		}
		for i := range s.list {
			do(at, &s.list[i])
			at++
		}
		lent <- s
		if c.opt.Progress != nil {
			c.opt.Progress(at, len(items))
		}
	}
	c.present = nil
}

// readingOf returns the decoded form of o. It needs no decoding if the sweep is at o.
func (c *checker) readingOf(o *op) *reading {
	if c.present != nil && c.present.o == o && c.present.rep != nil {
		return c.present
	}
	w := new(reading)
	if c.rereads == nil {
		c.rereads = &reader{c: c}
	}
	c.rereads.room = room{}
	c.rereads.op(o, w)
	return w
}
