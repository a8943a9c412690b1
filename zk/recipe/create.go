package recipe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// ensure creates the znode at path, and the parents it lacks, as containers: a
// server removes them once they have been in use and are empty. It is no
// error if the znode exists already.
//
// A root that doesn't exist is a chroot whose parent is missing. Only a client
// without that chroot can create it, so that is an error.
func ensure(ctx context.Context, c *zk.Client, path string, acl []zk.ACL) error {
	return ensureAs(ctx, c, path, acl, zk.ModeContainer)
}

// ensureAs is ensure for a znode of a given mode; missing parents are containers.
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

// ensureTries bounds how often a znode that was just created may be gone again: a
// server removes an empty container once a minute, so twice in a row is not chance.
const ensureTries = 3

// createProtected makes an ephemeral sequential znode in dir by
// zk.Client.CreateProtected. Missing parents are created.
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
			return "", 0, fmt.Errorf("recipe: enter %s: %w", dir, context.Cause(ctx))
		default:
			return "", 0, err
		}
	}
}

// deleteSurely deletes a znode whose name has a UUID of this client's, so that no other
// znode can have it and a repeated deletion does no harm. For any other znode use
// deleteIncarnation. It returns ErrNoNode if the znode was gone.
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

// deleteIncarnation deletes the znode at path if it is still the one that was
// created with czxid. It deletes at most one znode, that one, however many replies
// are lost: after a lost reply it finds out first what the path names now. It
// returns ErrNoNode if the znode was gone before.
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

// look returns what is at path, read from a state that includes everything this session
// has sent: even the outcome of a request whose reply was lost is settled in it.
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

// remove is deleteSurely for a caller who may leave: when ctx ends, the deletion
// goes on without it until it is done or the session is over.
func remove(ctx context.Context, c *zk.Client, path string) error {
	return behind(ctx, path, func(ctx context.Context) error { return deleteSurely(ctx, c, path) })
}

// behind runs a deletion of path; when ctx ends, it goes on without the caller.
func behind(ctx context.Context, path string, deletion func(context.Context) error) error {
	out := make(chan error, 1)
	go func() { out <- deletion(context.WithoutCancel(ctx)) }()
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
