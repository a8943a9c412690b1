package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Semaphore grants at most max leases at a time, in the order of the requests. max is an argument of NewSemaphore;
// all users of a path must give the same, since each client applies its own.
//
// Its layout is that of Curator's InterProcessSemaphoreV2: a mutex in path/locks, whose holder creates a lease in
// path/leases and waits until there are no more leases than allowed. Only that holder watches the leases. A client that
// crashes keeps its lease until its session expires.
//
// See Mutex and Held for lost connections and sessions.
type Semaphore struct {
	c     *zk.Client
	path  string
	max   int
	opt   Options
	entry *Mutex
}

// NewSemaphore returns the semaphore at path with max leases. max must be at least 1; with less, Acquire waits until
// ctx or the session ends. It sends no request.
func NewSemaphore(c *zk.Client, path string, max int, opt Options) *Semaphore {
	return &Semaphore{c: c, path: path, max: max, opt: opt, entry: NewMutex(c, join(path, "locks"), Options{ACL: opt.ACL})}
}

// Acquire waits for a lease until ctx or the session ends. Held.Unlock returns the lease. Held.Token is higher than
// that of every lease granted before. Several leases are valid at a time, so a resource can't recognize a late holder
// by its token.
func (s *Semaphore) Acquire(ctx context.Context) (*Held, error) {
	entry, err := s.entry.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer entry.Unlock(ctx)
	dir := join(s.path, "leases")
	for rest := vanishedPause; ; rest = min(2*rest, vanishedPauseMax) {
		path, czxid, err := createProtected(ctx, s.c, dir, "lease-", s.opt)
		if err != nil {
			return nil, err
		}
		err = s.await(ctx, dir, nameOf(path))
		if err == nil {
			return hold(ctx, s.c, path, czxid), nil
		}
		if errors.Is(err, errVanished) && pause(ctx, rest) {
			continue
		}
		remove(ctx, s.c, path) // it goes with the session at the latest
		return nil, fmt.Errorf("recipe: acquire %s: %w", s.path, err)
	}
}

// await waits until there are no more leases than allowed, including mine.
func (s *Semaphore) await(ctx context.Context, dir, mine string) error {
	for {
		names, _, w, err := s.c.ChildrenW(ctx, dir)
		if err != nil && again(ctx, err) {
			continue
		}
		if err != nil {
			return vanished(err)
		}
		found := false
		for _, name := range names {
			found = found || name == mine
		}
		switch {
		case !found:
			err = errVanished
		case len(names) > s.max:
			if _, err = w.Next(ctx); err == nil {
				continue
			}
		}
		w.Close()
		return err
	}
}

// Leases returns the holders of leases, and at most one client that waits for its lease, in the order of their tokens.
// It takes a request for each.
func (s *Semaphore) Leases(ctx context.Context) ([]Participant, error) {
	l := line{c: s.c, dir: join(s.path, "leases"), marks: marks{exclusive: []string{"lease-"}}}
	return l.participants(ctx)
}
