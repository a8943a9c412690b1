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
	Locks []*Held // in the order of their paths

	mu  sync.Mutex
	ctx context.Context
	end context.CancelCauseFunc
}

// LockAll waits until it has acquired all of the locks. If it fails, it releases those that it has. It acquires them in
// the order of Locker.Path, whatever the order of the arguments, so that two callers that want the same locks never
// deadlock. These paths are relative to the chroots of the locks' clients, so callers whose clients have different
// chroots can deadlock.
//
// LockAll fails at once if there are no locks, or if two of them have one client and one path, such as both sides of an
// RWLock, since they would deadlock. Two views of one session (zk.Client.Chroot) count as two clients: LockAll doesn't
// notice if their locks are the same, and waits until ctx or the session ends.
func LockAll(ctx context.Context, lockers ...Locker) (*HeldAll, error) {
	if len(lockers) == 0 {
		return nil, errors.New("recipe: lock all: no locks given")
	}
	sorted := slices.Clone(lockers)
	slices.SortStableFunc(sorted, func(a, b Locker) int { return strings.Compare(a.Path(), b.Path()) })
	for i, l := range sorted {
		if slices.ContainsFunc(sorted[i+1:], func(other Locker) bool { return sameLock(l, other) }) {
			return nil, fmt.Errorf("recipe: lock all: the lock %s is given twice and would wait for itself", l.Path())
		}
	}
	all := new(HeldAll)
	for _, l := range sorted {
		h, err := l.Lock(ctx)
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

// sameLock reports whether two lockers queue in the same directory through the same client.
func sameLock(a, b Locker) bool {
	x, y := lineOf(a), lineOf(b)
	return x != nil && y != nil && x.c == y.c && x.dir == y.dir
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

// Confirm calls Held.Confirm for all locks. If it returns nil, all are still held, and Context returns a new context in
// place of an ended one.
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

// Unlock releases all the locks, the last acquired first, and returns the joined errors of Held.Unlock. It is
// idempotent.
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
