// Package subtree reads and writes whole subtrees: walks that read ahead, writes and deletions in transactions, and
// ACLs that are set last.
package subtree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

const (
	// ReadsAhead is how many znodes are read before they are visited: enough to keep a
	// connection busy with a latency of a few milliseconds.
	ReadsAhead = 256
	// dataReadsAhead is ReadsAhead for walks that read data: at 1 MiB per znode, the most
	// that servers take, it bounds the memory.
	dataReadsAhead = 96
	// readsAheadTop is how many of the next siblings are read ahead, however many of their
	// parents' siblings were read already.
	readsAheadTop = 32
)

// systemPath holds what belongs to the ensemble, not to its users.
const systemPath = "/zookeeper"

// Znode is what a walk found at a path.
type Znode struct {
	Path     string
	Name     string // the last part of path
	Depth    int    // below the root of the walk
	Last     bool   // it is the last child of its parent
	Stat     zk.Stat
	Data     []byte   // if the walk reads data; nil for a znode without
	ACL      []zk.ACL // if the walk reads ACLs
	Children []string // sorted
	Err      error    // set if it can't be read; see Unreadable
	Prune    bool     // set by the visitor: don't descend
}

// Walk visits a subtree depth first, the children in the order of their names.
// Reads run ahead of the visitor; what vanishes meanwhile is left out.
type Walk struct {
	out      *screen.Output
	c        *zk.Client
	root     string
	What     string // for the progress line
	Data     bool   // read data
	ACL      bool   // read ACLs
	System   bool   // descend into /zookeeper
	Tolerant bool   // visit znodes that can't be read (see Unreadable), with Err set, rather than fail
	DepthMax int    // -1 for no limit
}

// NewWalk returns a walk below root that the caller may adjust. The walk reports its
// progress to out.
func NewWalk(out *screen.Output, c *zk.Client, root string) Walk {
	return Walk{out: out, c: c, root: root, What: "walk " + root, DepthMax: -1}
}

// Each calls visit for every znode until visit returns an error.
func (w Walk) Each(ctx context.Context, visit func(*Znode) error) error {
	p := w.out.Progress(w.What)
	if w.DepthMax < 0 {
		p.OfTree(ctx, w.c, w.root)
	}
	defer p.End()
	for n, err := range w.All(ctx) {
		if err == nil {
			err = visit(n)
		}
		if err != nil {
			return err
		}
		p.Add(1)
	}
	return nil
}

// reading is a znode that is being read.
type reading struct {
	n    *Znode
	done chan struct{}
}

// siblings are the children of one znode that are still to be visited.
type siblings struct {
	parent string
	depth  int
	names  []string
	ahead  []*reading // of names[:len(ahead)]
}

// All iterates over the znodes. An error is the last thing it yields.
func (w Walk) All(ctx context.Context) iter.Seq2[*Znode, error] {
	return func(yield func(*Znode, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		v := &visitor{Walk: w, ctx: ctx}
		defer v.wait()
		defer cancel()
		n := &Znode{Path: w.root, Name: w.root, Last: true}
		if err := v.read(n); err != nil {
			yield(nil, err)
			return
		}
		for n != nil {
			if n.Err != nil && !w.Tolerant {
				yield(nil, n.Err)
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
	Walk
	ctx   context.Context
	stack []*siblings // the deepest last
	open  int         // readings not yet visited
}

// descend puts n's children at the front.
func (v *visitor) descend(n *Znode) {
	if n.Prune || len(n.Children) == 0 || v.DepthMax >= 0 && n.Depth >= v.DepthMax {
		return
	}
	names := n.Children
	if n.Path == "/" && !v.System {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return "/"+name == systemPath })
	}
	v.stack = append(v.stack, &siblings{parent: n.Path, depth: n.Depth + 1, names: names})
}

// next returns the next znode, nil at the end.
func (v *visitor) next() (*Znode, error) {
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
		v.open--
		switch {
		case v.ctx.Err() != nil:
			return nil, fmt.Errorf("%s at %s: %w", v.What, r.n.Path, v.ctx.Err())
		case Gone(r.n.Err):
			continue
		case r.n.Err != nil && !Unreadable(r.n.Err):
			return nil, r.n.Err
		}
		return r.n, nil
	}
	return nil, nil
}

// readAhead starts reading what comes next, the nearest first.
func (v *visitor) readAhead() {
	limit := ReadsAhead
	if v.Data {
		limit = dataReadsAhead
	}
	for i := len(v.stack) - 1; i >= 0; i-- {
		f := v.stack[i]
		room := limit - v.open
		if i == len(v.stack)-1 {
			room = max(room, readsAheadTop-len(f.ahead))
		}
		for ; room > 0 && len(f.ahead) < len(f.names); room-- {
			at := len(f.ahead)
			n := &Znode{Path: Join(f.parent, f.names[at]), Name: f.names[at], Depth: f.depth, Last: at == len(f.names)-1}
			r := &reading{n, make(chan struct{})}
			f.ahead = append(f.ahead, r)
			v.open++
			go func() {
				defer close(r.done)
				r.n.Err = v.read(r.n)
			}()
		}
		if v.open >= limit {
			return
		}
	}
}

// read fills in n from the server.
func (v *visitor) read(n *Znode) (err error) {
	if v.Data {
		if n.Data, n.Stat, err = v.c.Get(v.ctx, n.Path); err != nil {
			return err
		}
	}
	if !v.Data || n.Stat.NumChildren > 0 {
		var st zk.Stat
		if n.Children, st, err = v.c.Children(v.ctx, n.Path); err != nil {
			return err
		}
		if !v.Data {
			n.Stat = st
		}
		slices.Sort(n.Children)
	}
	if v.ACL {
		n.ACL, _, err = v.c.GetACL(v.ctx, n.Path)
	}
	return err
}

// wait waits for the reads of znodes that won't be visited.
func (v *visitor) wait() {
	for _, f := range v.stack {
		for _, r := range f.ahead {
			<-r.done
		}
	}
}

// Gone reports whether err says that there is no such znode.
func Gone(err error) bool { return errors.Is(err, zk.ErrNoNode) }

// Unreadable reports whether err says that a server doesn't let one znode be read, and nothing of the others: NoAuth,
// or MarshallingError, which is Zooid's answer if the reply were too large, and Apache's for a znode whose ACL it has
// lost, as 3.5 may when it starts on a snapshot that was written while clients wrote (ZOOKEEPER-3306).
func Unreadable(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrMarshallingError)
}

// Unread counts znodes that a tolerant walk can't read.
type Unread struct {
	Out *screen.Output
	N   int
}

// Skip reports whether n can't be read, and says so.
func (u *Unread) Skip(n *Znode) bool {
	if n.Err == nil {
		return false
	}
	u.N++
	if errors.Is(n.Err, zk.ErrNoAuth) {
		u.Out.Messagef("Insufficient permission : %s", u.Out.Name(n.Path))
	} else {
		u.Out.Messagef("%v", n.Err)
	}
	return true
}

// Err returns the error that the command ends with because of these znodes.
func (u *Unread) Err(what string) error {
	if u.N == 0 {
		return nil
	}
	return advice.Errorf("addauth adds an identity that may read them; acl explain and policy explain show which",
		"%s: %s could not be read, left out with all below", what, Count(u.N))
}
