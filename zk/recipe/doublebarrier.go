package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/zk"
)

// A DoubleBarrier lets a number of clients begin together and end together. Its layout is that of Curator's
// DistributedDoubleBarrier and kazoo's DoubleBarrier.
//
// Only one goroutine may use a DoubleBarrier. Use each path for one round only. A member that leaves late deletes the
// ready znode, which could be that of the next round.
//
// A member whose connection is lost stays a member and continues to wait. A member whose session expires has left: its
// Enter or Leave fails with zk.ErrSessionExpired. Those in Enter then wait for another member; those in Leave don't
// wait for it.
type DoubleBarrier struct {
	c       *zk.Client
	path    string
	members int
	opt     Options

	mine   string // this member's znode; a new name for each Enter
	opened int64  // czxid of the ready znode that let this member in; 0 if not seen
}

// ready is the name of the znode that says that all members have entered.
const ready = "ready"

// NewDoubleBarrier returns a member of the barrier at path, which opens when the given number of members have entered.
// All must give the same number; with 1 or less Enter never waits for others. More members may enter afterwards. It
// sends no request.
func NewDoubleBarrier(c *zk.Client, path string, members int, opt Options) *DoubleBarrier {
	return &DoubleBarrier{c: c, path: path, members: members, opt: opt}
}

// Enter waits until all members have entered. If it fails, for example because ctx has ended, it takes this client out
// and may be called again. If all members had entered by then, the others pass the barrier anyway.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	b.mine, b.opened = newUUID(), 0
	err := b.enter(ctx)
	if err != nil {
		remove(ctx, b.c, join(b.path, b.mine))
		return fmt.Errorf("recipe: enter %s: %w", b.path, err)
	}
	return nil
}

func (b *DoubleBarrier) enter(ctx context.Context) error {
	// No other member uses the name: if it exists already, a reply was lost.
	if err := create(ctx, b.c, join(b.path, b.mine), b.opt.Data, zk.ModeEphemeral, b.opt.acl()); err != nil {
		return err
	}
	for {
		stat, open, w, err := b.c.ExistsW(ctx, join(b.path, ready))
		switch {
		case err != nil && again(ctx, err):
			continue
		case err != nil:
			return err
		case open:
			b.opened = stat.Czxid
			w.Close()
			return nil
		}
		others, err := b.others(ctx)
		switch {
		case err == nil && len(others)+1 >= b.members:
			// Nobody removes the ready znode while this member is here, so a repeated attempt can't create it again.
			err = create(ctx, b.c, join(b.path, ready), nil, zk.ModePersistent, b.opt.acl())
			if err == nil {
				w.Close()
				continue // to see which ready znode it is
			}
		case err == nil:
			if _, err = w.Next(ctx); err == nil {
				w.Close()
				continue // the ready znode stays as long as this member does
			}
		}
		w.Close()
		if !again(ctx, err) {
			return err
		}
	}
}

// others returns the names of the other members, sorted.
func (b *DoubleBarrier) others(ctx context.Context) ([]string, error) {
	names, _, err := b.c.Children(ctx, b.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == ready || name == b.mine })
	slices.Sort(names)
	return names, err
}

// Leave waits until all members have left. If it fails while it waits, this client is no longer a member, and another
// Leave continues to wait. If ctx ends before the client's znode is deleted, the deletion continues in the background.
// If the ensemble refuses the deletion, the client stays a member until its session ends. Call Leave only after Enter
// has succeeded.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	if err := remove(ctx, b.c, join(b.path, b.mine)); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for {
		others, err := b.others(ctx)
		switch {
		case err != nil && again(ctx, err):
		case err != nil:
			return fmt.Errorf("recipe: leave %s: %w", b.path, err)
		case len(others) == 0:
			if err := deleteIncarnation(ctx, b.c, join(b.path, ready), b.opened); !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			return nil
		default:
			if err := untilChanged(ctx, b.c, join(b.path, others[len(others)-1])); err != nil {
				return fmt.Errorf("recipe: leave %s: %w", b.path, err)
			}
		}
	}
}
