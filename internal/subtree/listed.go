package subtree

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// A Listed znode is one that a command has read and is about to change or delete.
type Listed struct {
	Path string
	Stat zk.Stat // as it was read
}

// deleteBatchBytes bounds the paths of a transaction that deletes: well below
// jute.maxbuffer.
const deleteBatchBytes = 512 << 10

// deleteTries bounds the attempts at a transaction that fails only because another client
// deletes the same znodes.
const deleteTries = 5

// ChangedError says that a znode has changed since it was read.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string { return e.Path + " was changed meanwhile" }

// DeleteListed deletes znodes from the last to the first, in transactions of up to
// batch, and returns how many are certainly gone. Each must be as it was listed: data
// and ACL unchanged, and not deleted and created again. Znodes that are gone already are
// skipped. DeleteListed stops at the first znode that was changed or has new children.
func DeleteListed(ctx context.Context, out *screen.Output, c *zk.Client, list []Listed, batch int) (int, error) {
	p := out.Progress("delete").Of(len(list))
	defer p.End()
	done := 0
	for left := list; len(left) > 0; {
		part := lastBatch(left, batch)
		left = left[:len(left)-len(part)]
		var err error
		for range deleteTries {
			if err = deletePart(ctx, c, part); !Gone(err) {
				break
			}
		}
		if err != nil {
			return done, err
		}
		done += len(part)
		p.Add(int64(len(part)))
	}
	return done, nil
}

// lastBatch returns the end of a non-empty list: as much as one transaction deletes.
func lastBatch(list []Listed, batch int) []Listed {
	bytes, at := 0, len(list)
	for at > 0 && len(list)-at < batch {
		bytes += len(list[at-1].Path) + writeOverhead
		if bytes > deleteBatchBytes && at < len(list) {
			break
		}
		at--
	}
	return list[at:]
}

// deletePart deletes znodes in one transaction. The versions guard their data; a look
// just before it guards what versions don't cover.
func deletePart(ctx context.Context, c *zk.Client, part []Listed) error {
	now, err := Look(ctx, c, part)
	if err != nil {
		return err
	}
	var ops []zk.MultiOp
	for i := len(part) - 1; i >= 0; i-- {
		if now[i] == nil {
			continue
		}
		if !Unchanged(*now[i], part[i].Stat) {
			return &ChangedError{part[i].Path}
		}
		ops = append(ops, zk.DeleteOp(part[i].Path, part[i].Stat.Version))
	}
	if len(ops) == 0 {
		return nil
	}
	_, err = c.Multi(ctx, ops...)
	return err
}

// Look returns the current metadata of znodes, nil for those that are gone.
func Look(ctx context.Context, c *zk.Client, list []Listed) ([]*zk.Stat, error) {
	p := c.Pipeline()
	asked := make([]zk.Future[zk.Stat], len(list))
	for i, l := range list {
		asked[i] = p.Exists(ctx, l.Path)
	}
	now := make([]*zk.Stat, len(list))
	for i := range asked {
		st, err := asked[i].Wait(ctx)
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		now[i] = &st
	}
	return now, nil
}

// Unchanged reports whether two looks at a path saw the same znode with the same
// data and ACL.
func Unchanged(a, b zk.Stat) bool {
	return a.Czxid == b.Czxid && a.Mzxid == b.Mzxid && a.Version == b.Version && a.Aversion == b.Aversion
}

// Conflict reports whether err says that another client has changed something.
func Conflict(err error) bool {
	_, changed := errors.AsType[*ChangedError](err)
	return changed || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty) ||
		errors.Is(err, zk.ErrNodeExists) || Gone(err)
}

// DeletedError says how far a deletion got.
func DeletedError(what string, done, of int, err error) error {
	switch {
	case err == nil:
		return nil
	case Conflict(err):
		return advice.Errorf("another client writes there, and its changes are left alone; run it again",
			"%s: %d of %d are deleted: %w", what, done, of, err)
	case zk.MaybeApplied(err):
		return advice.Add(fmt.Errorf("%s: %d of %d are deleted, and maybe the next ones: %w", what, done, of, err),
			"run it again: it deletes what is left")
	}
	return advice.Add(fmt.Errorf("%s: %d of %d are deleted: %w", what, done, of, err),
		"run it again: it deletes what is left")
}
