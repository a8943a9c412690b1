package compare

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/zk"
)

// Live is the tree of running servers.
type Live struct{ c *zk.Client }

// OpenLive returns the tree that a client sees, below its chroot if it has one.
func OpenLive(c *zk.Client) *Live { return &Live{c} }

// All walks the tree. A znode that can't be read has Err set, and its descendants are left out.
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
	case subtree.Unreadable(err):
		z.Err = err
	case err != nil:
		return nil, err
	}
	return z, nil
}

// Sync makes the server catch up with its leader. A follower that serves its copy has no leader to ask, nor does a
// server in read-only mode.
func (l *Live) Sync(ctx context.Context) error {
	err := l.c.Sync(ctx, "/")
	if errors.Is(err, zk.ErrNotReadOnly) {
		return fmt.Errorf("%w: %w", ErrCopy, err)
	}
	return err
}

// Zxid returns the zxid of the server's last reply, which is that of the state shown in the reply.
func (l *Live) Zxid(ctx context.Context) (int64, error) {
	if _, _, err := l.c.Exists(ctx, "/"); err != nil {
		return 0, err
	}
	return l.c.Session().LastZxid, nil
}

// reachPoll is the time between two looks at how far a copy is.
const reachPoll = 20 * time.Millisecond

// Reach asks the server for its zxid until it is reached.
func (l *Live) Reach(ctx context.Context, zxid int64, patience time.Duration) (int64, error) {
	for end := time.Now().Add(patience); ; {
		at, err := l.Zxid(ctx)
		if err != nil || at >= zxid || !time.Now().Before(end) {
			return at, err
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(reachPoll):
		}
	}
}

// Files is false.
func (l *Live) Files() bool { return false }
