package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Barrier blocks all clients that wait at it as long as its znode exists. It belongs to no session: it stays when the
// session that set it ends. Its layout is that of Curator's DistributedBarrier and kazoo's Barrier.
//
// Set and Remove use a Ledger in the barrier's parent, so both need the permissions to create and delete children
// there.
type Barrier struct {
	c    *zk.Client
	path string
	opt  Options
}

// NewBarrier returns the barrier at path. It sends no request and doesn't set the barrier.
func NewBarrier(c *zk.Client, path string, opt Options) *Barrier { return &Barrier{c, path, opt} }

// Set puts the barrier up. It succeeds if the barrier is already up. It is applied only once, even if replies are lost
// (see Ledger).
func (b *Barrier) Set(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := b.once(ctx, zk.CreateOp(b.path, b.opt.Data, zk.ModePersistent, b.opt.acl()))
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || tries > ensureTries:
			return err
		}
		if err := ensure(ctx, b.c, parentOf(b.path), b.opt.acl()); err != nil {
			return err
		}
	}
}

// once commits op exactly once.
func (b *Barrier) once(ctx context.Context, op zk.MultiOp) error {
	ledger := NewLedger(b.c, parentOf(b.path), Options{ACL: b.opt.ACL})
	defer ledger.Close(ctx)
	_, err := ledger.Commit(ctx, op)
	return err
}

// create makes a znode. It succeeds if the znode already exists.
func create(ctx context.Context, c *zk.Client, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) error {
	for tries := 1; ; tries++ {
		_, err := c.Create(ctx, path, data, mode, acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode) && tries <= ensureTries:
			// A container above was removed meanwhile.
			if err := ensure(ctx, c, parentOf(path), acl); err != nil {
				return err
			}
		case !again(ctx, err):
			return err
		}
	}
}

// Remove takes the barrier down, so that Wait returns in all clients. It succeeds if the barrier is already down. After
// a lost reply it doesn't remove a barrier that was set again meanwhile (see Ledger).
func (b *Barrier) Remove(ctx context.Context) error {
	if _, up, err := look(ctx, b.c, b.path); err != nil || !up {
		return err
	}
	if err := b.once(ctx, zk.DeleteOp(b.path, zk.AnyVersion)); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// Wait waits until the barrier is down, or ctx or the session ends. After a lost connection it continues to wait. It
// returns at once if the barrier isn't up.
func (b *Barrier) Wait(ctx context.Context) error {
	for {
		_, up, err := b.c.Exists(ctx, b.path)
		switch {
		case err != nil && again(ctx, err):
		case err != nil:
			return err
		case !up:
			return nil
		default:
			if err := untilChanged(ctx, b.c, b.path); err != nil {
				return fmt.Errorf("recipe: wait at %s: %w", b.path, err)
			}
		}
	}
}
