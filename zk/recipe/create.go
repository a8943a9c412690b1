package recipe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

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

// A made is the outcome of a create: the znode, or why there is none.
type made struct {
	path  string
	czxid int64
	err   error
}

// createProtected makes an ephemeral sequential znode in dir, whose name is
// "_c_UUID-" and name and the server's ten digits, as Curator's protection has
// it. Missing parents are created.
//
// No outcome leaves a znode behind that nobody knows of: when a reply is lost the
// znode is looked for, for as long as it takes, and when ctx ends first the work
// goes on behind the caller and what it finds is deleted. (Client.CreateProtected
// gives up looking where ctx or Options.Retry do.) It all ends with the session.
func createProtected(ctx context.Context, c *zk.Client, dir, name string, opt Options) (string, int64, error) {
	if err := ctx.Err(); err != nil {
		return "", 0, fmt.Errorf("recipe: enter %s: %w", dir, context.Cause(ctx))
	}
	out := make(chan made)
	go func() {
		lasting := context.WithoutCancel(ctx)
		m := createSurely(lasting, c, dir, "_c_"+newUUID()+"-", name, opt)
		select {
		case out <- m:
		case <-ctx.Done():
			if m.err == nil {
				deleteSurely(lasting, c, m.path) // fails only with the session, which deletes it
			}
		}
	}()
	select {
	case m := <-out:
		return m.path, m.czxid, m.err
	case <-ctx.Done():
		return "", 0, fmt.Errorf("recipe: enter %s: %w", dir, context.Cause(ctx))
	}
}

// createSurely creates the znode and looks for it until it knows the outcome.
func createSurely(ctx context.Context, c *zk.Client, dir, prefix, name string, opt Options) made {
	for {
		path, stat, err := c.CreateStat(ctx, join(dir, prefix+name), opt.Data, zk.ModeEphemeralSequential, opt.acl())
		switch {
		case err == nil:
			return made{path, stat.Czxid, nil}
		case errors.Is(err, zk.ErrNoNode):
			if err := ensure(ctx, c, dir, opt.acl()); err != nil {
				return made{err: err}
			}
		case !again(ctx, err):
			return made{err: err}
		case zk.MaybeApplied(err):
			m, found := lookFor(ctx, c, dir, prefix)
			if found || m.err != nil {
				return m
			}
		}
	}
}

// lookFor finds the znode in dir whose name begins with prefix. The sync makes
// sure that a create on its way has been decided.
func lookFor(ctx context.Context, c *zk.Client, dir, prefix string) (m made, found bool) {
	for {
		err := c.Sync(ctx, dir)
		var names []string
		if err == nil {
			names, _, err = c.Children(ctx, dir)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return made{}, false
		case err != nil && again(ctx, err):
			continue
		case err != nil:
			return made{err: err}, false
		}
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			stat, ok, err := c.Exists(ctx, join(dir, name))
			switch {
			case err == nil && ok:
				return made{join(dir, name), stat.Czxid, nil}, true
			case err != nil && !again(ctx, err):
				return made{err: err}, false
			}
		}
		return made{}, false
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
