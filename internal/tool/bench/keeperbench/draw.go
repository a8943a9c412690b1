package keeperbench

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// span is a number drawn uniformly from min to max, inclusive.
type span struct{ min, max int }

func (s span) draw(rng *rand.Rand) int { return s.min + rng.IntN(s.max-s.min+1) }

// Text is a fixed text, or a random one of letters and digits.
type Text struct {
	fixed  string
	length *span // of a random text; nil for a fixed text
}

const textLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Draw returns the text, or a new random one.
func (t *Text) Draw(rng *rand.Rand) string {
	if t.length == nil {
		return t.fixed
	}
	return string(t.appendTo(nil, rng))
}

func (t *Text) appendTo(b []byte, rng *rand.Rand) []byte {
	if t.length == nil {
		return append(b, t.fixed...)
	}
	for range t.length.draw(rng) {
		b = append(b, textLetters[rng.IntN(len(textLetters))])
	}
	return b
}

// pathChoice is the set of paths from which a request picks: fixed ones, and the children that some znodes have when
// the run begins.
type pathChoice struct {
	fixed      []string
	childrenOf []string
}

// drawnRequest is one entry of generator.requests.
type drawnRequest struct {
	op           jute.Op // create, setData, getData, getChildren or multi
	where        string  // its position in the file, for messages
	weight       int
	paths        pathChoice
	name         Text    // create: of the new znode
	data         *Text   // create, set
	removeFactor float64 // create: the share of requests that remove an earlier znode instead
	size         *span   // multi: how many operations are drawn; if nil, each of inner once
	inner        mixture // multi
}

// mixture is a set of requests drawn by weight.
type mixture []*drawnRequest

// pick draws one request.
func (m mixture) pick(rng *rand.Rand) *drawnRequest {
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
	panic("keeperbench: weights don't add up to their sum")
}

// Paths has the paths from which each request picks.
type Paths map[*drawnRequest][]string

// ResolvePaths lists the children from which requests pick, over a connection to a server on which the setup is done.
func (f *File) ResolvePaths(c *wire.Conn) (Paths, error) { return resolvePaths(c, f.requests) }

func resolvePaths(c *wire.Conn, m mixture) (Paths, error) {
	paths := Paths{}
	for _, r := range m {
		if r.op == jute.OpMulti {
			inner, err := resolvePaths(c, r.inner)
			if err != nil {
				return nil, err
			}
			maps.Copy(paths, inner)
			continue
		}
		list := append([]string(nil), r.paths.fixed...)
		for _, parent := range r.paths.childrenOf {
			q := jute.PathWatchRequest{Path: parent}
			body, err := c.Call(jute.OpGetChildren, q.Append)
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
			return nil, fmt.Errorf("%s: no path to pick from: %s has no children", r.where,
				strings.Join(r.paths.childrenOf, ", "))
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

// createdMax bounds the paths that a connection records for removal. Beyond it, a new path replaces another one.
const createdMax = 1 << 20

// A Drawer makes the requests of one connection.
type Drawer struct {
	requests mixture
	paths    Paths
	rng      *rand.Rand
	acl      []jute.ACL
	created  map[*drawnRequest][]string // not yet removed
	ops      []jute.MultiOp             // of the multi being drawn
}

// Drawer returns a Drawer for the requests of one connection.
func (f *File) Drawer(paths Paths, rng *rand.Rand) *Drawer {
	return &Drawer{
		requests: f.requests, paths: paths, rng: rng, acl: jute.WorldACL(jute.PermAll), created: map[*drawnRequest][]string{},
	}
}

// Append appends the frame of one drawn request.
func (d *Drawer) Append(b []byte, _ uint64) ([]byte, wire.Kind) {
	r := d.requests.pick(d.rng)
	if r.op == jute.OpMulti {
		return d.appendMulti(b, r)
	}
	o := d.operation(r)
	k := wire.KindWrite
	if o.IsRead() {
		k = 0
	} else if o.Op == jute.OpDelete {
		k |= wire.KindMissingOK
	}
	return jute.AppendRequest(b, 0, o.Op, o.Append), k
}

func (d *Drawer) appendMulti(b []byte, r *drawnRequest) ([]byte, wire.Kind) {
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
	k, op := wire.KindMulti, jute.OpMulti
	if len(d.ops) > 0 && d.ops[0].IsRead() {
		op = jute.OpMultiRead
	} else {
		k |= wire.KindWrite
	}
	for i := range d.ops {
		if d.ops[i].Op == jute.OpDelete {
			k |= wire.KindMissingOK
		}
	}
	return jute.AppendRequest(b, 0, op, func(b []byte) []byte { return jute.AppendMulti(b, d.ops) }), k
}

// operation draws one operation other than a multi.
func (d *Drawer) operation(r *drawnRequest) jute.MultiOp {
	list := d.paths[r]
	path := list[d.rng.IntN(len(list))]
	switch r.op {
	case jute.OpCreate:
		if made := d.created[r]; len(made) > 0 && d.rng.Float64() < r.removeFactor {
			return jute.MultiOp{Op: jute.OpDelete, Path: d.forget(r), Version: -1}
		}
		path = join(path, r.name.Draw(d.rng))
		if r.removeFactor > 0 {
			d.remember(r, path)
		}
		return jute.MultiOp{Op: jute.OpCreate, Path: path, Data: d.data(r), ACL: d.acl}
	case jute.OpSetData:
		return jute.MultiOp{Op: jute.OpSetData, Path: path, Data: d.data(r), Version: -1}
	}
	return jute.MultiOp{Op: r.op, Path: path}
}

func (d *Drawer) data(r *drawnRequest) []byte {
	if r.data == nil {
		return []byte{}
	}
	return r.data.appendTo(make([]byte, 0, 64), d.rng)
}

func (d *Drawer) remember(r *drawnRequest, path string) {
	made := d.created[r]
	if len(made) >= createdMax {
		made[d.rng.IntN(len(made))] = path
		return
	}
	d.created[r] = append(made, path)
}

// forget removes a random path from the created ones and returns it.
func (d *Drawer) forget(r *drawnRequest) string {
	made := d.created[r]
	i := d.rng.IntN(len(made))
	path := made[i]
	made[i] = made[len(made)-1]
	d.created[r] = made[:len(made)-1]
	return path
}

// errMixedMulti says that servers refuse a multi of reads and writes.
var errMixedMulti = errors.New("a multi can't mix reads (get, list) and writes (create, set)")
