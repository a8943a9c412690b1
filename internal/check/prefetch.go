package check

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/history"
	"github.com/zooid-project/zooid/jute"
)

// The sweep knows what it will look at long before it does: the records of the
// items to come. So a second goroutine decodes them, a few stretches of items
// ahead, and leaves the first the model. What the second reads doesn't change
// during the sweep; nodes, which do, it only passes on.

const (
	// stretchItems is how many items are handed over at once: enough to make the
	// handing over cheap, and few enough to stay in the processor's cache.
	stretchItems = 512
	// stretchesMax bounds the stretches there are: one in use and those ahead.
	stretchesMax = 4
)

// A reading is what the records of one request and its reply say. The sweep looks
// at nothing else, if all is well: the events are far away in memory.
type reading struct {
	o       *op            // nil for an entry of the log whose author kept no journal
	req     *history.Event // nil if o is
	conn    *conn          // nil if o is
	sent    int64          // the time of the request
	kind    jute.Op
	invalid jute.Code // that a write or multiRead ends with if it can't be decoded
	ids     int32     // identities the connection had
	watch   bool      // a read asks for a watch
	forged  bool      // an entry of the log isn't what its author sent

	at  *node          // that the request names first
	ops []jute.MultiOp // of a write or multiRead, one unless it is a multi
	shown
	results []jute.MultiResult // of a multi or multiRead
}

// identities returns those that the connection had.
func (w *reading) identities() []jute.ID {
	if w.conn == nil {
		return nil
	}
	return w.conn.ids[:w.ids]
}

// shown is what a reply shows. Which fields count depends on the operation.
type shown struct {
	rep   *history.Event // nil if there is none
	zxid  int64
	code  jute.Code
	part  int32 // of a multiRead's results, 1 and up
	count int32
	path  string
	data  []byte
	kids  nameSet
	stat  jute.Stat
	bad   error // the record is cut short
}

// room is where a reader puts what has no fixed size.
type room struct {
	ops     []jute.MultiOp
	results []jute.MultiResult
}

// A reader decodes. It is for one goroutine.
type reader struct {
	c   *checker
	dec jute.Decoder
	room
}

// item decodes what an item stands for.
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

// author says who sent a request, and when.
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

// write decodes a write's request, but for kinds so rare that the model decodes
// them itself.
func (r *reader) write(kind jute.Op, body []byte, w *reading) {
	switch kind {
	case jute.OpCreateSession, jute.OpCloseSession, jute.OpDeleteContainer, jute.OpSetACL, OpReplace:
		return
	}
	from := len(r.ops)
	r.dec.Reset(body)
	r.ops, w.invalid = decodeOps(r.ops, kind, &r.dec)
	w.ops = r.ops[from:len(r.ops):len(r.ops)]
}

// reply decodes the reply that there is.
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
		jute.DecodeACLs(d) // readACL looks at them
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

// A stretch is some items in a row, decoded.
type stretch struct {
	list []reading
	room room
	fail error // the reader's own failure
}

// prefetch decodes items into the stretches it is lent and hands them over, in
// order, until all is decoded or nothing more is lent.
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

// eachReading calls do for all items in their order.
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

// readingOf returns what o's records say: at hand if o is what the sweep is at.
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
