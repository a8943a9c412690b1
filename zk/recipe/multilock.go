package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// A HeldAll is several locks held together.
type HeldAll struct {
	Locks []*Held // in the order in which they were acquired (see LockAll)

	mu  sync.Mutex
	ctx context.Context
	end context.CancelCauseFunc
}

// LockAll waits until it has acquired all of the locks. If it fails, it releases those that it has, as Held.Unlock does
// with ctx. It acquires them in the order of their whole paths, which begin with the clients' chroots, whatever the
// order of the arguments, so that two callers that want the same locks never deadlock. A Locker of another package is
// ordered by its Path. If the connection or a lock was lost while LockAll waited for another lock, the context of the
// result has ended already, and Confirm tells whether all are held.
//
// LockAll fails at once if there are no locks, or if two of them have one path in one session, such as both sides of an
// RWLock, since they would deadlock. The session is the same for a client and its views (zk.Client.Chroot). If two
// locks have one path in two sessions, LockAll fails as soon as the second would wait for the first.
func LockAll(ctx context.Context, lockers ...Locker) (*HeldAll, error) {
	if len(lockers) == 0 {
		return nil, errors.New("recipe: lock all: no locks given")
	}
	given := map[zk.Place]string{}
	for _, l := range lockers {
		line := lineOf(l)
		if line == nil {
			continue
		}
		place, path := line.c.Place(line.dir), l.Path()
		if before, twice := given[place]; twice {
			if before != path {
				path = before + ", also named " + path + ","
			}
			return nil, fmt.Errorf("recipe: lock all: the lock %s is given twice and would wait for itself", path)
		}
		given[place] = path
	}
	sorted := slices.Clone(lockers)
	slices.SortStableFunc(sorted, func(a, b Locker) int { return strings.Compare(wholePath(a), wholePath(b)) })
	all := new(HeldAll)
	for _, l := range sorted {
		h, err := lockBeside(ctx, l, all.Locks)
		if err != nil {
			for _, h := range slices.Backward(all.Locks) {
				h.Unlock(ctx)
			}
			return nil, fmt.Errorf("recipe: lock all: %w", err)
		}
		all.Locks = append(all.Locks, h)
	}
	all.renew(context.WithoutCancel(ctx))
	return all, nil
}

// errTwice says that one lock was given to LockAll by two sessions.
var errTwice = errors.New("it is given twice, by two sessions, and would wait for itself")

// lockBeside is l.Lock for a caller that already holds other locks. It fails if l would wait for one of them.
func lockBeside(ctx context.Context, l Locker, held []*Held) (*Held, error) {
	own := lineOf(l)
	if own == nil {
		return l.Lock(ctx)
	}
	beside := *own
	for _, h := range held {
		beside.held = append(beside.held, nameOf(h.path))
	}
	return beside.lock(ctx, true)
}

// wholePath returns the path by which LockAll orders l.
func wholePath(l Locker) string {
	if line := lineOf(l); line != nil {
		return line.c.Place(line.dir).Path()
	}
	return l.Path()
}

// lineOf returns the line of one of this package's locks, nil for another Locker.
func lineOf(l Locker) *line {
	switch l := l.(type) {
	case *Mutex:
		return &l.line
	case *Side:
		return &l.line
	}
	return nil
}

// renew makes a context that ends when the context of any lock ends.
func (a *HeldAll) renew(values context.Context) {
	ctx, end := context.WithCancelCause(values)
	for _, h := range a.Locks {
		one := h.Context()
		context.AfterFunc(one, func() { end(context.Cause(one)) })
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.end = ctx, end
}

// Context returns a context that ends as soon as the context of any of the locks ends, with the same cause.
func (a *HeldAll) Context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ctx
}

// Confirm calls Held.Confirm for all locks, and returns the first error. If it returns nil, all are still held, and
// Context returns a new context in place of an ended one.
func (a *HeldAll) Confirm(ctx context.Context) error {
	for _, h := range a.Locks {
		if err := h.Confirm(ctx); err != nil {
			return err
		}
	}
	if old := a.Context(); old.Err() != nil {
		a.renew(context.WithoutCancel(old))
	}
	return nil
}

// Guards returns operations that make a Multi fail with zk.ErrNoNode unless all locks are still held when the ensemble
// applies it. The locks' clients must all have the same chroot (see Held.Guard).
func (a *HeldAll) Guards() []zk.MultiOp {
	var ops []zk.MultiOp
	for _, h := range a.Locks {
		ops = append(ops, h.Guard())
	}
	return ops
}

// Unlock releases all the locks, the last acquired first, and returns the joined errors of Held.Unlock. Like
// Held.Unlock it may be called again.
func (a *HeldAll) Unlock(ctx context.Context) error {
	a.mu.Lock()
	a.end(ErrReleased)
	a.mu.Unlock()
	var errs []error
	for _, h := range slices.Backward(a.Locks) {
		errs = append(errs, h.Unlock(ctx))
	}
	return errors.Join(errs...)
}
