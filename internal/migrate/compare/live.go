package compare

import (
	"context"
	"errors"
	"iter"

	"github.com/zooid-project/zooid/internal/cli/subtree"
	"github.com/zooid-project/zooid/zk"
)

// Live is the tree of running servers.
type Live struct{ c *zk.Client }

// OpenLive returns the tree that a client sees, below its chroot if it has one.
func OpenLive(c *zk.Client) *Live { return &Live{c} }

// All walks the tree. A znode that may not be read has Err set, and its descendants are left out.
func (l *Live) All(ctx context.Context) iter.Seq2[*Znode, error] {
	w := subtree.NewWalk(nil, l.c, "/")
	w.Data, w.ACL, w.System, w.Tolerant = true, true, true, true
	return func(yield func(*Znode, error) bool) {
		for n, err := range w.All(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&Znode{Path: n.Path, Data: n.Data, Stat: n.Stat, ACL: n.ACL, Err: n.Err}, nil) {
				return
			}
		}
	}
}

// Read reads a znode again.
func (l *Live) Read(ctx context.Context, path string) (*Znode, error) {
	z := &Znode{Path: path}
	var err error
	for range 3 { // until data and ACL belong to the same state
		if z.Data, z.Stat, err = l.c.Get(ctx, path); err != nil {
			break
		}
		var st zk.Stat
		if z.ACL, st, err = l.c.GetACL(ctx, path); err != nil || st == z.Stat {
			break
		}
	}
	switch {
	case subtree.Gone(err):
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		z.Err = err
	case err != nil:
		return nil, err
	}
	return z, nil
}

// Sync makes the server catch up with its leader.
func (l *Live) Sync(ctx context.Context) error { return l.c.Sync(ctx, "/") }

// Fixed is false.
func (l *Live) Fixed() bool { return false }
