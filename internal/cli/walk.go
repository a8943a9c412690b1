package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zooid-project/zooid/zk"
)

const (
	// readsAhead is how many znodes are read before they are visited: enough to
	// keep a connection busy at a few milliseconds' distance.
	readsAhead = 256
	// dataReadsAhead is the same where data comes along: at 1 MiB to a znode, the
	// most that servers take, it bounds the memory.
	dataReadsAhead = 96
	// readsAheadTop is how many are read ahead among the next siblings, however
	// many of their parents' siblings were read already.
	readsAheadTop = 32
)

// systemPath holds what belongs to the ensemble, not to its users.
const systemPath = "/zookeeper"

// znode is what a walk found at a path.
type znode struct {
	path     string
	name     string // the last part of path
	depth    int    // below the root of the walk
	last     bool   // it is the last child of its parent
	stat     zk.Stat
	data     []byte   // if the walk reads data; nil for a znode without
	acl      []zk.ACL // if the walk reads ACLs
	children []string // sorted
	err      error    // it may not be read
	prune    bool     // set by the visitor: don't descend
}

// walk visits a subtree depth first, the children in the order of their names.
// Reads run ahead of the visitor; what vanishes meanwhile is left out.
type walk struct {
	s        *shell
	c        *zk.Client
	root     string
	what     string // for the progress line
	data     bool   // read data
	acl      bool   // read ACLs
	system   bool   // descend into /zookeeper
	tolerant bool   // visit znodes that may not be read, with err set, rather than fail
	depthMax int    // -1 for no limit
}

// walk returns a walk below root that the caller may adjust.
func (s *shell) walk(c *zk.Client, root string) walk {
	// Below a chroot /zookeeper is a znode like others.
	return walk{s: s, c: c, root: root, what: "walk " + root, depthMax: -1, system: c == s.client && s.chroot() != ""}
}

// each calls visit for every znode until it returns an error.
func (w walk) each(ctx context.Context, visit func(*znode) error) error {
	p := w.s.out.progress(w.what)
	if w.depthMax < 0 {
		p.ofTree(ctx, w.c, w.root)
	}
	defer p.end()
	for n, err := range w.all(ctx) {
		if err == nil {
			err = visit(n)
		}
		if err != nil {
			return err
		}
		p.add(1)
	}
	return nil
}

// reading is a znode on its way.
type reading struct {
	n    *znode
	done chan struct{}
}

// siblings are the children of one znode that are still to be visited.
type siblings struct {
	parent string
	depth  int
	names  []string
	ahead  []*reading // of names[:len(ahead)]
}

// all iterates over the znodes. An error is the last thing it yields.
func (w walk) all(ctx context.Context) iter.Seq2[*znode, error] {
	return func(yield func(*znode, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		v := &visitor{walk: w, ctx: ctx}
		defer v.wait()
		defer cancel()
		n := &znode{path: w.root, name: w.root, last: true}
		if err := v.read(n); err != nil {
			yield(nil, err)
			return
		}
		for n != nil {
			if n.err != nil && !w.tolerant {
				yield(nil, n.err)
				return
			}
			if !yield(n, nil) {
				return
			}
			v.descend(n)
			var err error
			if n, err = v.next(); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// visitor is a walk under way.
type visitor struct {
	walk
	ctx   context.Context
	stack []*siblings // the deepest last
	out   int         // readings not yet visited
}

// descend puts n's children first.
func (v *visitor) descend(n *znode) {
	if n.prune || len(n.children) == 0 || v.depthMax >= 0 && n.depth >= v.depthMax {
		return
	}
	names := n.children
	if n.path == "/" && !v.system {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return "/"+name == systemPath })
	}
	v.stack = append(v.stack, &siblings{parent: n.path, depth: n.depth + 1, names: names})
}

// next returns the next znode, nil at the end.
func (v *visitor) next() (*znode, error) {
	for len(v.stack) > 0 {
		top := v.stack[len(v.stack)-1]
		if len(top.names) == 0 {
			v.stack = v.stack[:len(v.stack)-1]
			continue
		}
		v.readAhead()
		r := top.ahead[0]
		<-r.done
		top.names, top.ahead = top.names[1:], top.ahead[1:]
		v.out--
		switch {
		case v.ctx.Err() != nil:
			return nil, fmt.Errorf("%s at %s: %w", v.what, r.n.path, v.ctx.Err())
		case gone(r.n.err):
			continue
		case r.n.err != nil && !errors.Is(r.n.err, zk.ErrNoAuth):
			return nil, r.n.err
		}
		return r.n, nil
	}
	return nil, nil
}

// readAhead starts reading what comes next, the nearest first.
func (v *visitor) readAhead() {
	limit := readsAhead
	if v.data {
		limit = dataReadsAhead
	}
	for i := len(v.stack) - 1; i >= 0; i-- {
		f := v.stack[i]
		room := limit - v.out
		if i == len(v.stack)-1 {
			room = max(room, readsAheadTop-len(f.ahead))
		}
		for ; room > 0 && len(f.ahead) < len(f.names); room-- {
			at := len(f.ahead)
			n := &znode{path: join(f.parent, f.names[at]), name: f.names[at], depth: f.depth, last: at == len(f.names)-1}
			r := &reading{n, make(chan struct{})}
			f.ahead = append(f.ahead, r)
			v.out++
			go func() {
				defer close(r.done)
				r.n.err = v.read(r.n)
			}()
		}
		if v.out >= limit {
			return
		}
	}
}

// read fills in n from the server.
func (v *visitor) read(n *znode) (err error) {
	if v.data {
		if n.data, n.stat, err = v.c.Get(v.ctx, n.path); err != nil {
			return err
		}
	}
	if !v.data || n.stat.NumChildren > 0 {
		var st zk.Stat
		if n.children, st, err = v.c.Children(v.ctx, n.path); err != nil {
			return err
		}
		if !v.data {
			n.stat = st
		}
		slices.Sort(n.children)
	}
	if v.acl {
		n.acl, _, err = v.c.GetACL(v.ctx, n.path)
	}
	return err
}

// wait waits for the readings that won't be visited.
func (v *visitor) wait() {
	for _, f := range v.stack {
		for _, r := range f.ahead {
			<-r.done
		}
	}
}

// gone reports whether err says that there is no such znode.
func gone(err error) bool { return errors.Is(err, zk.ErrNoNode) }

// unread counts znodes that a tolerant walk may not read.
type unread struct {
	s *shell
	n int
}

// skip reports whether n can't be read, and says so.
func (u *unread) skip(n *znode) bool {
	if n.err == nil {
		return false
	}
	u.n++
	u.s.out.messagef("Insufficient permission : %s", u.s.out.name(n.path))
	return true
}

// err is what the command ends with because of them.
func (u *unread) err(what string) error {
	if u.n == 0 {
		return nil
	}
	return failuref("addauth adds an identity that may read them; acl explain tells which",
		"%s: %s could not be read, left out with all below", what, describeCount(u.n))
}
