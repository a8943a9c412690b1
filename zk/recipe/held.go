package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// A Held is an acquired lock: a mutex, one side of a read/write lock, a semaphore's lease, or leadership. It belongs to
// the session that acquired it. Its methods may be called from several goroutines at once.
//
// A lock over a network can be lost while its holder still uses the resource. There are two protections, best used
// together. Work under Context, which ends as soon as the lock may be lost. And pass Token to the resource, which
// refuses a token lower than one that it has seen. If the resource is in ZooKeeper itself, put Guard into the same
// Multi.
type Held struct {
	c     *zk.Client
	path  string
	token int64
	base  context.Context    // only its values are used
	stop  context.CancelFunc // ends the goroutines that watch the lock

	mu      sync.Mutex
	ctx     context.Context
	end     context.CancelCauseFunc
	losses  int   // of the connection, as far as noticed
	gone    error // why the lock is no longer held; nil while it may be held
	deleted bool  // Unlock's deletion is done: the znode is gone, or the session
}

// hold starts to watch a lock that was just acquired.
func hold(ctx context.Context, c *zk.Client, path string, token int64) *Held {
	h := &Held{c: c, path: path, token: token, base: context.WithoutCancel(ctx)}
	h.ctx, h.end = context.WithCancelCause(h.base)
	life, stop := context.WithCancel(context.Background())
	h.stop = stop
	states := c.States()
	go h.watchStates(life, states)
	go h.watchNode(life)
	return h
}

// Token returns the fencing token: a number that grows with each acquisition of the lock by any client. It is the czxid
// of the lock's znode, so clients in any language can determine it. It continues to grow after Zooid's restore and
// after a migration to Zooid, but may be lower in an ensemble rebuilt from an older backup. Several readers of an
// RWLock, and several leases of a Semaphore, are valid at once: see Side.Lock and Semaphore.Acquire.
func (h *Held) Token() int64 { return h.token }

// Path returns the path of the lock's znode.
func (h *Held) Path() string { return h.path }

// Client returns the client whose session has the lock.
func (h *Held) Client() *zk.Client { return h.c }

// Guard returns an operation that makes a Multi fail with zk.ErrNoNode unless the lock is still held when the ensemble
// applies it. Its path is relative to the chroot of Client, so the Multi must be one of Client, or of a client with the
// same chroot.
func (h *Held) Guard() zk.MultiOp { return zk.CheckOp(h.path, zk.AnyVersion) }

// Context returns a context for the work under the lock. It has the values of the context with which the lock was
// acquired, but doesn't end with it. It ends with a cause that wraps one of
//
//	ErrSuspended  when the connection is lost, also if the client moves (zk.Client.UpdateServers)
//	ErrLost       when the session or its client has ended, or the lock's znode was deleted
//	ErrReleased   when Unlock is called, before it deletes the znode
//
// After ErrSuspended, Confirm finds out whether the lock is still held; if it is, Context returns a new context.
func (h *Held) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx
}

// Confirm asks the ensemble whether the lock is still held. It waits for a connection. If the lock is held, Confirm
// returns nil, and Context returns a context that hasn't ended, unless the connection was lost again. If it isn't held,
// the error wraps ErrLost or ErrReleased. After any other error, such as ctx's, it may be held.
func (h *Held) Confirm(ctx context.Context) error {
	for {
		h.mu.Lock()
		losses := h.losses
		h.mu.Unlock()
		err := h.c.Sync(ctx, h.path)
		var ok bool
		if err == nil {
			_, ok, err = h.c.Exists(ctx, h.path)
		}
		switch {
		case err == nil && ok:
			if renewed, err := h.renew(losses); renewed || err != nil {
				return err
			}
		case err == nil, zk.SessionLost(err):
			h.lose(err)
			_, err = h.renew(losses)
			return err
		case !again(ctx, err):
			return fmt.Errorf("recipe: confirm %s: %w", h.path, err)
		}
	}
}

// renew replaces an ended context, unless the connection was lost again since losses were counted: then the ensemble's
// answer is out of date. A loss that is noticed later ends the new context, which is safe.
func (h *Held) renew(losses int) (renewed bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.gone != nil:
		return false, fmt.Errorf("recipe: confirm %s: %w", h.path, h.gone)
	case h.losses != losses:
		return false, nil
	case h.ctx.Err() != nil:
		h.ctx, h.end = context.WithCancelCause(h.base)
	}
	return true, nil
}

// Unlock releases the lock. The error wraps ErrLost if the lock had been lost earlier, so that it didn't protect the
// resource for some time; the next holder is not affected. Unlock waits for the reply. If ctx ends first, or has
// already ended, the error wraps ctx's Err, and the release continues in the background until it is done or the session
// has ended; another Unlock waits for it. If the ensemble refuses the deletion of the znode (zk.ErrNoAuth), the lock
// stays taken until the session ends, or until another Unlock succeeds. Calling it again after a success returns nil. A
// lock that ended with ErrLost need not be unlocked.
func (h *Held) Unlock(ctx context.Context) error {
	defer h.stop() // after the deletion, which fires the watch and so removes it
	h.mu.Lock()
	repeated := errors.Is(h.gone, ErrReleased)
	done := repeated && h.deleted
	h.mu.Unlock()
	if done {
		return nil
	}
	gone := h.finish(ErrReleased)
	// A lock that counts as lost may still have its znode, and with it its place in the line.
	err := behind(ctx, h.path, func(ctx context.Context) error {
		err := deleteSurely(ctx, h.c, h.path)
		h.mu.Lock()
		h.deleted = err == nil || hasEnded(err)
		h.mu.Unlock()
		return err
	})
	switch {
	case !errors.Is(gone, ErrReleased):
		return fmt.Errorf("recipe: unlock %s: %w", h.path, gone)
	case !hasEnded(err):
		return err
	case repeated:
		return nil
	}
	return fmt.Errorf("recipe: unlock %s: %w", h.path, lost(err))
}

// hasEnded reports whether err, of a deletion, says that the znode is gone, or its session has ended.
func hasEnded(err error) bool { return errors.Is(err, zk.ErrNoNode) || zk.SessionLost(err) }

// finish records that the lock is no longer held, and returns the reason. Only the first reason is kept.
func (h *Held) finish(why error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone == nil {
		h.gone = why
		h.end(why)
	}
	return h.gone
}

// lose records that the lock is lost, and ends the goroutines that watch it. err is as in lost.
func (h *Held) lose(err error) {
	h.finish(lost(err))
	h.stop()
}

// lost returns the error of a lock whose session has ended with err, or whose znode is gone.
func lost(err error) error {
	if zk.SessionLost(err) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return ErrLost
}

// suspend ends the current context.
func (h *Held) suspend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses++
	h.end(ErrSuspended)
}

// watchStates ends the context when the connection is lost.
func (h *Held) watchStates(life context.Context, states *zk.States) {
	defer states.Close()
	for {
		change, err := states.Next(life)
		switch {
		case life.Err() != nil:
			return
		case err != nil:
			h.lose(err)
			return
		case change.State.Final():
			h.lose(change.Err)
			return
		case change.State != zk.StateConnected || change.Missed > 0:
			h.suspend()
		}
	}
}

// watchNode notices when another client deletes the lock's znode.
func (h *Held) watchNode(life context.Context) {
	for h.Context().Err() == nil || errors.Is(context.Cause(h.Context()), ErrSuspended) {
		_, ok, w, err := h.c.ExistsW(life, h.path)
		switch {
		case err != nil && again(life, err):
			continue
		case err == nil && ok:
			w.Next(life) // look again after any event
			w.Close()
			continue
		case err == nil:
			w.Close()
		case !zk.SessionLost(err) && life.Err() == nil:
			// Whatever the error means, the lock may still be held.
			h.suspend()
			if !pause(life, refusedPause) {
				return
			}
			continue
		}
		if life.Err() == nil {
			h.lose(err)
		}
		return
	}
}
