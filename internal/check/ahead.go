package check

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// The sweep knows what it will look at long before it does: the records of the
// items to come, and the names in them. So a second goroutine decodes them, a
// few stretches of items ahead, and leaves the first the model. What the second
// reads doesn't change during the sweep, but for the nodes behind the places,
// which only the sweep touches.

const (
	// stretchItems is how many items are handed over at once: enough to make the
	// handing over cheap, and few enough to stay in the processor's cache.
	stretchItems = 512
	// stretchesMax bounds the stretches there are: one in use and those ahead.
	stretchesMax = 4
)

// A place is a path as the decoding goroutine knows it, so that the sweep need
// not look it up each time.
type place struct {
	path string
	up   *place // the place above, nil for "/" and for what isn't a path
	n    *node  // the sweep's; nil until it has looked
}

// nodeAt interns the path of a place. A nil place has none to remember: path
// counts.
func (m *model) nodeAt(at *place, path string) *node {
	if at == nil {
		return m.node(path)
	}
	if at.n == nil {
		at.n = m.node(at.path)
	}
	return at.n
}

// known is nodeAt for a path that need not be anything.
func (m *model) known(at *place) *node {
	if at.n == nil {
		at.n = m.nodes[at.path]
	}
	return at.n
}

// A reading is what the records of one request and its reply say.
type reading struct {
	o        *op    // nil for an entry of the log whose author kept no journal
	req, rep *Event // nil if there is none
	at       *place // the path that a read names
	watch    bool   // a read asks for a watch
	forged   bool   // an entry of the log isn't what its author sent

	// Of a write: its operations, one unless it is a multi, their paths, and the
	// code it ends with if it can't be decoded.
	ops     []jute.MultiOp
	ats     []*place
	made    *place // what the reply to a sequential create names, nil if there is none
	invalid jute.Code

	shown
	results []jute.MultiResult // of a multi or multiRead
}

// shown is what a reply shows. Which fields count depends on the operation.
type shown struct {
	zxid  int64
	code  jute.Code
	path  string
	data  []byte
	acl   []jute.ACL
	kids  []*place // of a multiRead, those of all its results
	count int32
	stat  jute.Stat
	bad   error // the record is cut short
}

// room is where a reader puts what has no fixed size.
type room struct {
	ops    []jute.MultiOp
	places []*place
}

// A reader decodes. It is for one goroutine.
type reader struct {
	c      *checker
	dec    jute.Decoder
	places map[string]*place
	name   []byte
	room
}

func newReader(c *checker) *reader { return &reader{c: c, places: map[string]*place{}} }

func (r *reader) place(path string) *place {
	at := r.places[path]
	if at == nil {
		at = &place{path: path}
		r.places[path] = at
		if up := parentPath(path); up != "" && path != "/" {
			at.up = r.place(up)
		}
	}
	return at
}

// item decodes what an item stands for.
func (r *reader) item(it item, w *reading) {
	if it.ref >= 0 {
		r.op(&r.c.ops[it.ref], w)
		return
	}
	e := &r.c.log[^it.ref]
	*w = reading{}
	if author := r.c.authors[^it.ref]; author >= 0 {
		w.o = &r.c.ops[author]
		sent := &r.c.h.Events[w.o.req]
		w.forged = sent.op() != e.Op || string(sent.Body) != string(e.Body)
	}
	r.write(e.Op, e.Body, w)
	if w.o == nil || w.o.rep < 0 {
		return
	}
	if rep := &r.c.h.Events[w.o.rep]; rep.Zxid == e.Zxid {
		w.req, w.rep = &r.c.h.Events[w.o.req], rep
		r.reply(w.req.op(), w)
	}
}

func (r *reader) op(o *op, w *reading) {
	*w = reading{o: o, req: &r.c.h.Events[o.req]}
	kind := w.req.op()
	if isWrite(kind) {
		r.write(kind, w.req.Body, w)
	} else {
		r.query(kind, w.req.Body, w)
	}
	if o.rep >= 0 {
		w.rep = &r.c.h.Events[o.rep]
		r.reply(kind, w)
	}
}

// write decodes a write's request, but for kinds so rare that the model decodes
// them itself.
func (r *reader) write(kind jute.Op, body []byte, w *reading) {
	switch kind {
	case jute.OpCreateSession, jute.OpCloseSession, jute.OpDeleteContainer, jute.OpSetACL:
		return
	}
	from := len(r.ops)
	r.dec.Reset(body)
	r.ops, w.invalid = decodeOps(r.ops, kind, &r.dec)
	w.ops = r.ops[from:len(r.ops):len(r.ops)]
	first := len(r.room.places)
	for i := range w.ops {
		r.room.places = append(r.room.places, r.place(w.ops[i].Path))
	}
	w.ats = r.room.places[first:len(r.room.places):len(r.room.places)]
}

// query decodes a read's request.
func (r *reader) query(kind jute.Op, body []byte, w *reading) {
	switch kind {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		r.dec.Reset(body)
		w.at = r.place(r.dec.String())
		w.watch = r.dec.Bool() && r.dec.Err() == nil
	case jute.OpGetACL, jute.OpGetAllChildrenNumber:
		r.dec.Reset(body)
		w.at = r.place(r.dec.String())
	case jute.OpMultiRead:
		r.write(kind, body, w)
	}
}

// reply decodes w.rep.
func (r *reader) reply(kind jute.Op, w *reading) {
	w.zxid, w.code = w.rep.Zxid, w.rep.code()
	if w.code != jute.OK {
		return
	}
	d := &r.dec
	d.Reset(w.rep.Body)
	switch kind {
	case jute.OpGetData:
		w.data = d.Buffer()
		w.stat.Decode(d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		w.stat.Decode(d)
	case jute.OpGetACL:
		w.acl = jute.DecodeACLs(d)
		w.stat.Decode(d)
	case jute.OpGetChildren, jute.OpGetChildren2:
		if w.at != nil {
			w.kids = r.kids(w.at.path, d)
		}
		if kind == jute.OpGetChildren2 {
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
		w.results, w.bad = jute.DecodeMultiResponse(d)
		w.kids = r.kidsOf(w)
	}
	if w.bad == nil {
		w.bad = d.Err()
	}
	if w.path != "" && len(w.ops) == 1 && w.ops[0].Flags.Sequential() {
		w.made = r.place(w.path)
	}
}

// kids decodes a list of the names of path's children.
func (r *reader) kids(path string, d *jute.Decoder) []*place {
	from := len(r.room.places)
	for range max(d.Count(4), 0) {
		r.room.places = append(r.room.places, r.kid(path, d.String()))
	}
	return r.room.places[from:len(r.room.places):len(r.room.places)]
}

// kidsOf looks up the children that the results of a multiRead list, all in one.
func (r *reader) kidsOf(w *reading) []*place {
	from := len(r.room.places)
	for i := range w.results {
		if i >= len(w.ops) {
			break // it is found wrong for that
		}
		for _, name := range w.results[i].Children {
			r.room.places = append(r.room.places, r.kid(w.ops[i].Path, name))
		}
	}
	return r.room.places[from:len(r.room.places):len(r.room.places)]
}

func (r *reader) kid(path, name string) *place {
	r.name = append(r.name[:0], path...)
	if path != "/" {
		r.name = append(r.name, '/')
	}
	r.name = append(r.name, name...)
	if at := r.places[string(r.name)]; at != nil {
		return at
	}
	return r.place(string(r.name))
}

// A stretch is some items in a row, decoded.
type stretch struct {
	list []reading
	room room
	fail error // the reader's own failure
}

// ahead decodes items into the stretches it is lent and hands them over, in
// order, until all is decoded or nothing more is lent.
func (c *checker) ahead(items []item, lent <-chan *stretch, ready chan<- *stretch) {
	defer close(ready)
	r := newReader(c)
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
			s.fail = fmt.Errorf("decode the history ahead: %v", failure)
		}
	}()
	s.list = s.list[:len(items)]
	r.room = room{s.room.ops[:0], s.room.places[:0]}
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
	go c.ahead(items, lent, ready)
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
		c.rereads = newReader(c)
	}
	c.rereads.room = room{}
	c.rereads.op(o, w)
	return w
}
