package recipe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// ensure creates the znode at path and its missing parents as containers: the server removes a container once it has
// had children and has no more. It succeeds if the znode already exists.
//
// If the root doesn't exist, the parent of the client's chroot is missing. Only a client without the chroot could
// create it, so ensure returns an error.
func ensure(ctx context.Context, c *zk.Client, path string, acl []zk.ACL) error {
	return ensureAs(ctx, c, path, acl, zk.ModeContainer)
}

// ensureAs is ensure for a znode of the given mode. Missing parents become containers.
func ensureAs(ctx context.Context, c *zk.Client, path string, acl []zk.ACL, mode zk.CreateMode) error {
	for tries := 1; ; tries++ {
		_, err := c.Create(ctx, path, nil, mode, acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrUnimplemented) && mode == zk.ModeContainer:
			mode = zk.ModePersistent // a server older than 3.5
		case errors.Is(err, zk.ErrNoNode) && path == "/":
			return fmt.Errorf("recipe: the client's chroot doesn't exist and neither does its parent; create both first: %w", err)
		case errors.Is(err, zk.ErrNoNode) && tries <= ensureTries:
			if err := ensure(ctx, c, parentOf(path), acl); err != nil {
				return err
			}
		case !again(ctx, err):
			return err
		}
	}
}

// ensureTries bounds the attempts when a znode that was just created is gone again. A server removes empty containers
// once a minute, so two times in a row can't be a coincidence.
const ensureTries = 3

// createProtected makes an ephemeral sequential znode in dir by zk.Client.CreateProtected. It creates missing parents.
func createProtected(ctx context.Context, c *zk.Client, dir, name string, opt Options) (string, int64, error) {
	for tries := 1; ; tries++ {
		path, stat, err := c.CreateProtected(ctx, join(dir, name), opt.Data, zk.ModeEphemeralSequential, opt.acl())
		switch {
		case err == nil:
			return path, stat.Czxid, nil
		case errors.Is(err, zk.ErrNoNode) && tries <= ensureTries:
			if err := ensure(ctx, c, dir, opt.acl()); err != nil {
				return "", 0, err
			}
		case ctx.Err() != nil:
			return "", 0, fmt.Errorf("recipe: enter %s: %w", dir, ctx.Err())
		default:
			return "", 0, err
		}
	}
}

// deleteSurely deletes a znode whose name has a UUID of this client, so that no other znode can have the name and a
// repeated deletion does no harm. For other znodes use deleteIncarnation. It returns ErrNoNode if the znode was already
// gone.
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

// deleteIncarnation deletes the znode at path if its czxid is czxid. It never deletes another znode, even if replies
// are lost: after a lost reply it first checks which znode is at path. It returns ErrNoNode if the znode was already
// gone.
func deleteIncarnation(ctx context.Context, c *zk.Client, path string, czxid int64) error {
	for unsure := false; ; {
		stat, ok, err := look(ctx, c, path)
		switch {
		case err != nil:
			return err
		case (!ok || stat.Czxid != czxid) && unsure:
			return nil
		case !ok || stat.Czxid != czxid:
			return fmt.Errorf("recipe: delete %s: %w", path, zk.ErrNoNode)
		}
		// The version protects a znode that was replaced and changed meanwhile.
		err = c.Delete(ctx, path, stat.Version)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion): // look again
		case !again(ctx, err):
			return err
		}
		unsure = unsure || zk.MaybeApplied(err)
	}
}

// look returns the metadata of the znode at path, as of a state that includes every request this session has sent, even
// one whose reply was lost.
func look(ctx context.Context, c *zk.Client, path string) (zk.Stat, bool, error) {
	for {
		err := c.Sync(ctx, path)
		if err == nil {
			var stat zk.Stat
			var ok bool
			if stat, ok, err = c.Exists(ctx, path); err == nil {
				return stat, ok, nil
			}
		}
		if !again(ctx, err) {
			return zk.Stat{}, false, err
		}
	}
}

// remove is deleteSurely for a caller that may leave: when ctx ends, the deletion continues in the background until it
// is done or the session has ended.
func remove(ctx context.Context, c *zk.Client, path string) error {
	return behind(ctx, path, func(ctx context.Context) error { return deleteSurely(ctx, c, path) })
}

// behind runs a deletion of path. When ctx ends, the deletion continues in the background.
func behind(ctx context.Context, path string, deletion func(context.Context) error) error {
	out := make(chan error, 1)
	go func() { out <- deletion(context.WithoutCancel(ctx)) }()
	select {
	case err := <-out:
		return err
	case <-ctx.Done():
		return fmt.Errorf("recipe: delete %s: %w; it continues in the background", path, ctx.Err())
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
