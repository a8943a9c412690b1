package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Barrier holds up everybody who waits at it, for as long as its znode exists.
// It belongs to nobody: it stays when its setter's session ends. The layout is
// that of Curator's DistributedBarrier and kazoo's Barrier.
type Barrier struct {
	c    *zk.Client
	path string
	opt  Options
}

// NewBarrier returns the barrier at path, without setting it.
func NewBarrier(c *zk.Client, path string, opt Options) *Barrier { return &Barrier{c, path, opt} }

// Set puts the barrier up; that it is up already is no error.
func (b *Barrier) Set(ctx context.Context) error {
	if err := ensure(ctx, b.c, parentOf(b.path), b.opt.acl()); err != nil {
		return err
	}
	return create(ctx, b.c, b.path, b.opt.Data, zk.ModePersistent, b.opt.acl())
}

// create makes a znode; that it exists already is no error.
func create(ctx context.Context, c *zk.Client, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) error {
	for {
		_, err := c.Create(ctx, path, data, mode, acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			// A container above was removed meanwhile.
			if err := ensure(ctx, c, parentOf(path), acl); err != nil {
				return err
			}
		case !again(ctx, err):
			return err
		}
	}
}

// Remove takes the barrier down and lets everybody go; that it is down already is
// no error.
func (b *Barrier) Remove(ctx context.Context) error {
	if err := deleteSurely(ctx, b.c, b.path); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// Wait waits until the barrier is down, or ctx or the session ends. A lost
// connection makes it wait on.
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
