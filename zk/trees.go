package zk

import (
	"context"
	"errors"
	"fmt"
)

// parentTries bounds how often a znode that was just seen or made may be gone again
// before EnsurePath and CreateAll give up.
const parentTries = 3

// CreateAll is Create for a path whose parents may be missing: it makes those with
// EnsurePath and the same acl. If it fails, the parents stay.
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

// EnsurePath creates the znode at path and its ancestors where they are missing:
// persistent, without data, with acl. It leaves existing znodes unchanged. It can't create
// the root of the client's chroot, which takes a client without the chroot.
func (c *Client) EnsurePath(ctx context.Context, path string, acl []ACL) error {
	for tries := 1; ; tries++ {
		err := c.ensureOnce(ctx, path, acl)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNoNode) && tries <= parentTries: // what was there is gone
		case errors.Is(err, ErrNoNode), !again(ctx, err):
			return err
		}
	}
}

// ensureOnce goes up from path to the first znode that exists, and down again.
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
	// deleteBatch bounds the znodes that DeleteAll deletes in one transaction; their
	// paths have at most half of Options.MaxRequestBytes, or there is one path.
	deleteBatch = 500

	// statsAtOnce is how many requests for metadata DeleteAll sends without waiting.
	statsAtOnce = 100
)

// DeleteAll deletes the znode at path and everything below it, the ephemeral znodes
// of any session included. It is no error if there is no such znode.
//
// It sees all that was acknowledged before the call, and deletes what it has read and
// nothing else. Where others create a znode below
// path meanwhile, that one stays, and so do those above it, and DeleteAll fails with
// ErrNotEmpty; where they change one it fails with ErrBadVersion, and where they
// delete one it goes on. A znode that others delete and create again right before
// it is deleted can't be told from the one that was read.
//
// Up to 500 znodes go in one transaction, all or none. More go in several, the
// deepest first; if one fails, what was deleted before stays deleted, and DeleteAll
// may be called again. While the connection is lost it waits, and after a lost reply
// it looks which of the znodes it meant are left. When ctx ends, MaybeApplied tells
// about the last transaction.
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

// A victim is a znode to be deleted, as it was when it was read.
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

// sync makes sure that what follows sees all that was acknowledged or sent before.
func (d *treeDeletion) sync(ctx context.Context, path string) error {
	for {
		if err := d.c.Sync(ctx, path); err == nil || !again(ctx, err) {
			return err
		}
	}
}

// tree deletes everything below the znode at path, then the znode itself. stat is its
// metadata, nil if it is gone.
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

// deleteOverhead is what a delete takes in a transaction besides its path, in bytes.
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
			if err := d.left(ctx); err != nil {
				return err
			}
		}
	}
	d.bytes = 0
	return nil
}

// left takes out of the batch what doesn't exist any more. After the sync, the outcome
// of a transaction whose reply was lost is settled.
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
