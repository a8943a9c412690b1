package recipe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// ensure creates the znode at path, and the parents it lacks, as containers: a
// server removes them once they have been in use and are empty. That the znode
// exists already is no error.
func ensure(ctx context.Context, c *zk.Client, path string, acl []zk.ACL) error {
	mode := zk.ModeContainer
	for {
		_, err := c.Create(ctx, path, nil, mode, acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrUnimplemented) && mode == zk.ModeContainer:
			mode = zk.ModePersistent // a server older than 3.5
		case errors.Is(err, zk.ErrNoNode):
			if err := ensure(ctx, c, parentOf(path), acl); err != nil {
				return err
			}
		case !again(ctx, err):
			return err
		}
	}
}

// createProtected makes an ephemeral sequential znode in dir by
// zk.Client.CreateProtected. Missing parents are created.
func createProtected(ctx context.Context, c *zk.Client, dir, name string, opt Options) (string, int64, error) {
	for {
		path, stat, err := c.CreateProtected(ctx, join(dir, name), opt.Data, zk.ModeEphemeralSequential, opt.acl())
		switch {
		case err == nil:
			return path, stat.Czxid, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := ensure(ctx, c, dir, opt.acl()); err != nil {
				return "", 0, err
			}
		case ctx.Err() != nil:
			return "", 0, fmt.Errorf("recipe: enter %s: %w", dir, context.Cause(ctx))
		default:
			return "", 0, err
		}
	}
}

// deleteSurely deletes a znode whose name is never used again, so that doing it
// twice does no harm. It returns ErrNoNode if it was gone.
func deleteSurely(ctx context.Context, c *zk.Client, path string) error {
	for unsure := false; ; {
		err := c.Delete(ctx, path, zk.AnyVersion)
		switch {
		case err == nil, unsure && errors.Is(err, zk.ErrNoNode):
			return nil
		case !again(ctx, err):
			return err
		}
		unsure = unsure || zk.MaybeApplied(err)
	}
}

// remove is deleteSurely for a caller who may leave: when ctx ends, the deletion
// goes on without it until it is done or the session is over.
func remove(ctx context.Context, c *zk.Client, path string) error {
	out := make(chan error, 1)
	go func() { out <- deleteSurely(context.WithoutCancel(ctx), c, path) }()
	select {
	case err := <-out:
		return err
	case <-ctx.Done():
		return fmt.Errorf("recipe: delete %s: %w; it goes on in the background", path, context.Cause(ctx))
	}
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
