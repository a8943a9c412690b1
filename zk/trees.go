package zk

import (
	"context"
	"errors"
	"fmt"
)

// parentTries bounds how often EnsurePath and CreateAll try again because a znode just seen or made is gone.
const parentTries = 3

// CreateAll is like Create, but first makes missing parents with EnsurePath and the same acl, which must permit this
// client to create children. If it fails, the parents stay, and MaybeApplied may hold because of one of them.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	for tries := 1; ; tries++ {
		created, err := c.Create(ctx, path, data, mode, acl)
		if !errors.Is(err, ErrNoNode) || tries > parentTries {
			return created, err
		}
		if err := c.EnsurePath(ctx, parentOf(path), acl); err != nil {
			return "", err
		}
	}
}

// EnsurePath creates the znode at path and its missing ancestors as persistent znodes with acl and without data. It
// leaves existing znodes unchanged, and needs PermRead and PermCreate only on the deepest of them. It continues after
// the same errors as CreateProtected. It can't create the client's chroot, and fails with ErrNoNode if that is missing.
func (c *Client) EnsurePath(ctx context.Context, path string, acl []ACL) error {
	for tries := 1; ; tries++ {
		err := c.ensureOnce(ctx, path, acl)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNoNode) && tries <= parentTries: // a znode was deleted meanwhile
		case errors.Is(err, ErrNoNode), !again(ctx, err):
			return err
		}
	}
}

// ensureOnce goes up from path to the first znode that exists, then creates the missing ones downwards.
func (c *Client) ensureOnce(ctx context.Context, path string, acl []ACL) error {
	var missing []string
	for ; ; path = parentOf(path) {
		_, ok, err := c.Exists(ctx, path)
		switch {
		case err != nil:
			return err
		case !ok && path == "/":
			return &Error{Op: "create", Path: path, Err: ErrNoNode, detail: "the client's chroot doesn't exist; create it with a client that has none"}
		}
		if ok {
			break
		}
		missing = append(missing, path)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if _, err := c.Create(ctx, missing[i], nil, ModePersistent, acl); err != nil && !errors.Is(err, ErrNodeExists) {
			return err
		}
	}
	return nil
}

const (
	// deleteBatch bounds the znodes that DeleteAll deletes in one transaction. Their paths also take at most half of
	// Options.MaxRequestBytes, unless there is only one.
	deleteBatch = 500

	// statsAtOnce bounds the unanswered requests for metadata of DeleteAll.
	statsAtOnce = 100
)

// DeleteAll deletes the znode at path and everything below it, including the ephemeral znodes of all sessions. It
// succeeds if there is no such znode. It fails with ErrBadArguments for "/", also in a chroot. It needs PermRead on
// each znode, and PermDelete on each that has children and on path's parent.
//
// It sees all that was acknowledged before the call, and deletes only znodes that it has read. If another client
// creates a znode below path meanwhile, this znode and its ancestors stay, and DeleteAll fails with ErrNotEmpty. If
// another client changes a znode, DeleteAll fails with ErrBadVersion. If another client deletes one, DeleteAll
// continues. It doesn't notice when another client deletes a znode and creates it again right before its deletion.
//
// Up to 500 znodes are deleted in one transaction, all or none. More take several transactions, which delete the
// deepest znodes first. If one fails, the znodes deleted before stay deleted, and DeleteAll may be called again.
// DeleteAll continues after the same errors as CreateProtected, and after a lost reply it checks which znodes are left.
// If ctx or the session ends while a transaction is unanswered, or during that check, MaybeApplied holds.
func (c *Client) DeleteAll(ctx context.Context, path string) error {
	if path == "/" {
		return &Error{Op: "delete", Path: path, Err: ErrBadArguments, detail: "the root can't be deleted"}
	}
	d := treeDeletion{c: c}
	err := d.all(ctx, path)
	switch {
	case err != nil && d.deleted > 0:
		return fmt.Errorf("zk: delete all of %s: after %d znodes: %w", path, d.deleted, err)
	case err != nil:
		return fmt.Errorf("zk: delete all of %s: %w", path, err)
	}
	return nil
}

// A treeDeletion is one DeleteAll.
type treeDeletion struct {
	c       *Client
	batch   []victim // read and not yet deleted, children before their parents
	bytes   int      // of their paths
	deleted int
}

// A victim is a znode to be deleted, with the version that was read.
type victim struct {
	path    string
	czxid   int64
	version int32
}

func (d *treeDeletion) all(ctx context.Context, path string) error {
	if err := d.sync(ctx, path); err != nil {
		return err
	}
	stats, err := d.stats(ctx, []string{path})
	if err != nil {
		return err
	}
	if err := d.tree(ctx, path, stats[0]); err != nil {
		return err
	}
	return d.flush(ctx)
}

// sync makes later reads see all that was acknowledged or sent before.
func (d *treeDeletion) sync(ctx context.Context, path string) error {
	for {
		if err := d.c.Sync(ctx, path); err == nil || !again(ctx, err) {
			return err
		}
	}
}

// tree deletes everything below the znode at path, then the znode itself. stat is its metadata, nil if it is gone.
func (d *treeDeletion) tree(ctx context.Context, path string, stat *Stat) error {
	if stat == nil {
		return nil
	}
	if stat.NumChildren > 0 {
		if err := d.children(ctx, path); err != nil {
			return err
		}
	}
	if len(d.batch) == deleteBatch || len(d.batch) > 0 && d.bytes+len(path) > d.c.s.opt.MaxRequestBytes/2 {
		if err := d.flush(ctx); err != nil {
			return err
		}
	}
	d.batch = append(d.batch, victim{path, stat.Czxid, stat.Version})
	d.bytes += len(path) + deleteOverhead
	return nil
}

// deleteOverhead is the size of a delete in a transaction without its path, in bytes.
const deleteOverhead = 17

// children deletes everything below the znode at path.
func (d *treeDeletion) children(ctx context.Context, path string) error {
	var names []string
	for {
		var err error
		if names, _, err = d.c.Children(ctx, path); err == nil || errors.Is(err, ErrNoNode) {
			break
		}
		if !again(ctx, err) {
			return err
		}
	}
	for len(names) > 0 {
		paths := make([]string, min(len(names), statsAtOnce))
		for i := range paths {
			paths[i] = path + "/" + names[i]
		}
		names = names[len(paths):]
		stats, err := d.stats(ctx, paths)
		if err != nil {
			return err
		}
		for i, stat := range stats {
			if err := d.tree(ctx, paths[i], stat); err != nil {
				return err
			}
		}
	}
	return nil
}

// stats returns the metadata of the znodes at paths, nil for those that don't exist.
func (d *treeDeletion) stats(ctx context.Context, paths []string) ([]*Stat, error) {
	for {
		stats, err := d.statsOnce(ctx, paths)
		if err == nil || !again(ctx, err) {
			return stats, err
		}
	}
}

func (d *treeDeletion) statsOnce(ctx context.Context, paths []string) ([]*Stat, error) {
	p := d.c.Pipeline()
	sent := make([]Future[Stat], len(paths))
	for i, path := range paths {
		sent[i] = p.Exists(ctx, path)
	}
	stats := make([]*Stat, len(paths))
	for i, f := range sent {
		switch stat, err := f.Wait(ctx); {
		case err == nil:
			stats[i] = &stat
		case !errors.Is(err, ErrNoNode):
			return nil, err
		}
	}
	return stats, nil
}

// flush deletes the batch.
func (d *treeDeletion) flush(ctx context.Context) error {
	for len(d.batch) > 0 {
		ops := make([]MultiOp, len(d.batch))
		for i, v := range d.batch {
			ops[i] = DeleteOp(v.path, v.version)
		}
		_, err := d.c.Multi(ctx, ops...)
		switch {
		case err == nil:
			d.deleted += len(d.batch)
			d.batch = d.batch[:0]
		case !errors.Is(err, ErrNoNode) && !again(ctx, err):
			return err
		case errors.Is(err, ErrNoNode), MaybeApplied(err):
			if lookErr := d.left(ctx); lookErr != nil {
				return stillUnknown(err, lookErr)
			}
		}
	}
	d.bytes = 0
	return nil
}

// left removes the znodes that no longer exist from the batch. The sync makes sure that a transaction with a lost reply
// has taken effect or never will.
func (d *treeDeletion) left(ctx context.Context) error {
	if err := d.sync(ctx, d.batch[0].path); err != nil {
		return err
	}
	var left []victim
	for rest := d.batch; len(rest) > 0; rest = rest[min(len(rest), statsAtOnce):] {
		now := rest[:min(len(rest), statsAtOnce)]
		paths := make([]string, len(now))
		for i, v := range now {
			paths[i] = v.path
		}
		stats, err := d.stats(ctx, paths)
		if err != nil {
			return err
		}
		for i, stat := range stats {
			if stat != nil && stat.Czxid == now[i].czxid {
				left = append(left, now[i])
			}
		}
	}
	d.deleted += len(d.batch) - len(left)
	d.batch = left
	return nil
}
