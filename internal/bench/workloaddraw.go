package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// random is the source of every choice of a workload.
type random = *rand.Rand

// span is a number drawn evenly from min to max, both possible.
type span struct{ min, max int }

func (s span) draw(rng random) int { return s.min + rng.IntN(s.max-s.min+1) }

// text is a fixed text, or a random one of letters and digits.
type text struct {
	fixed  string
	length *span // of a random text; nil means fixed
}

const textLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (t *text) draw(rng random) string {
	if t.length == nil {
		return t.fixed
	}
	return string(t.appendTo(nil, rng))
}

func (t *text) appendTo(b []byte, rng random) []byte {
	if t.length == nil {
		return append(b, t.fixed...)
	}
	for range t.length.draw(rng) {
		b = append(b, textLetters[rng.IntN(len(textLetters))])
	}
	return b
}

// pathChoice is the paths a request picks from: fixed ones, and the children
// that some znodes have when the run begins.
type pathChoice struct {
	fixed      []string
	childrenOf []string
}

// drawnRequest is one entry of generator.requests.
type drawnRequest struct {
	op           jute.Op // create, setData, getData, getChildren or multi
	where        string  // in the file, for messages
	weight       int
	paths        pathChoice
	name         text    // create: of the new znode
	data         *text   // create, set
	removeFactor float64 // create: the share of requests that remove one created before
	size         *span   // multi: how many are drawn; nil is each of inner once
	inner        mixture // multi
}

// mixture is requests drawn by weight.
type mixture []*drawnRequest

// pick draws one request.
func (m mixture) pick(rng random) *drawnRequest {
	total := 0
	for _, r := range m {
		total += r.weight
	}
	at := rng.IntN(total)
	for _, r := range m {
		if at -= r.weight; at < 0 {
			return r
		}
	}
	panic("bench: weights don't add up to their sum")
}

// resolvePaths lists the children that requests pick from and returns the
// paths of every request.
func resolvePaths(c *conn, m mixture) (map[*drawnRequest][]string, error) {
	paths := map[*drawnRequest][]string{}
	for _, r := range m {
		if r.op == jute.OpMulti {
			inner, err := resolvePaths(c, r.inner)
			if err != nil {
				return nil, err
			}
			for k, v := range inner {
				paths[k] = v
			}
			continue
		}
		list := append([]string(nil), r.paths.fixed...)
		for _, parent := range r.paths.childrenOf {
			q := jute.PathWatchRequest{Path: parent}
			body, err := c.call(jute.OpGetChildren, q.Append)
			if err != nil {
				return nil, fmt.Errorf("%s: list the children of %s: %w", r.where, parent, err)
			}
			var resp jute.ChildrenResponse
			resp.Decode(jute.NewDecoder(body))
			for _, name := range resp.Children {
				list = append(list, join(parent, strings.Clone(name)))
			}
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%s: no path to pick from: %s has no children", r.where, strings.Join(r.paths.childrenOf, ", "))
		}
		paths[r] = list
	}
	return paths, nil
}

func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// createdMax bounds the paths a connection remembers for removal; beyond it the
// newcomer takes the place of another.
const createdMax = 1 << 20

// drawer makes the requests of one connection.
type drawer struct {
	requests mixture
	paths    map[*drawnRequest][]string
	rng      random
	acl      []jute.ACL
	created  map[*drawnRequest][]string // not yet removed
	ops      []jute.MultiOp             // of the multi being drawn
}

func newDrawer(m mixture, paths map[*drawnRequest][]string, rng random) *drawer {
	return &drawer{requests: m, paths: paths, rng: rng, acl: jute.WorldACL(jute.PermAll), created: map[*drawnRequest][]string{}}
}

// append appends the frame of one drawn request.
func (d *drawer) append(b []byte, _ uint64) ([]byte, kind) {
	r := d.requests.pick(d.rng)
	if r.op == jute.OpMulti {
		return d.appendMulti(b, r)
	}
	o := d.operation(r)
	k := kindWrite
	if o.IsRead() {
		k = 0
	} else if o.Op == jute.OpDelete {
		k |= kindMissingOK
	}
	b, start := jute.BeginFrame(b)
	h := jute.RequestHeader{Op: o.Op}
	b = h.Append(b)
	switch o.Op {
	case jute.OpCreate:
		q := jute.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL}
		b = q.Append(b)
	case jute.OpDelete:
		q := jute.PathVersionRequest{Path: o.Path, Version: -1}
		b = q.Append(b)
	case jute.OpSetData:
		q := jute.SetDataRequest{Path: o.Path, Data: o.Data, Version: -1}
		b = q.Append(b)
	default:
		q := jute.PathWatchRequest{Path: o.Path}
		b = q.Append(b)
	}
	return jute.EndFrame(b, start), k
}

func (d *drawer) appendMulti(b []byte, r *drawnRequest) ([]byte, kind) {
	d.ops = d.ops[:0]
	if r.size == nil {
		for _, inner := range r.inner {
			d.ops = append(d.ops, d.operation(inner))
		}
	} else {
		for range r.size.draw(d.rng) {
			d.ops = append(d.ops, d.operation(r.inner.pick(d.rng)))
		}
	}
	k, op := kindMulti, jute.OpMulti
	if len(d.ops) > 0 && d.ops[0].IsRead() {
		op = jute.OpMultiRead
	} else {
		k |= kindWrite
	}
	for i := range d.ops {
		if d.ops[i].Op == jute.OpDelete {
			k |= kindMissingOK
		}
	}
	b, start := jute.BeginFrame(b)
	h := jute.RequestHeader{Op: op}
	return jute.EndFrame(jute.AppendMulti(h.Append(b), d.ops), start), k
}

// operation draws one operation that isn't a multi.
func (d *drawer) operation(r *drawnRequest) jute.MultiOp {
	list := d.paths[r]
	path := list[d.rng.IntN(len(list))]
	switch r.op {
	case jute.OpCreate:
		if made := d.created[r]; len(made) > 0 && d.rng.Float64() < r.removeFactor {
			return jute.MultiOp{Op: jute.OpDelete, Path: d.forget(r), Version: -1}
		}
		path = join(path, r.name.draw(d.rng))
		if r.removeFactor > 0 {
			d.remember(r, path)
		}
		return jute.MultiOp{Op: jute.OpCreate, Path: path, Data: d.data(r), ACL: d.acl}
	case jute.OpSetData:
		return jute.MultiOp{Op: jute.OpSetData, Path: path, Data: d.data(r), Version: -1}
	}
	return jute.MultiOp{Op: r.op, Path: path}
}

func (d *drawer) data(r *drawnRequest) []byte {
	if r.data == nil {
		return []byte{}
	}
	return r.data.appendTo(make([]byte, 0, 64), d.rng)
}

func (d *drawer) remember(r *drawnRequest, path string) {
	made := d.created[r]
	if len(made) >= createdMax {
		made[d.rng.IntN(len(made))] = path
		return
	}
	d.created[r] = append(made, path)
}

// forget takes one of the created paths.
func (d *drawer) forget(r *drawnRequest) string {
	made := d.created[r]
	i := d.rng.IntN(len(made))
	path := made[i]
	made[i] = made[len(made)-1]
	d.created[r] = made[:len(made)-1]
	return path
}

// errMixedMulti is what servers say to a multi of reads and writes.
var errMixedMulti = errors.New("a multi can't mix reads (get, list) and writes (create, set)")
