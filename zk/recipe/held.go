package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// A Held is a lock that was acquired: a mutex, one side of a read/write lock, a
// semaphore's lease, or leadership. It belongs to the session it was acquired
// with and to no other.
//
// A lock over a network can be lost while its holder still acts on it. Two things
// help, best together. Work under Context, which ends as soon as there is a
// doubt. And let the resource decide: pass it Token and have it refuse what
// carries a token lower than one it has seen; where the resource is in ZooKeeper
// itself, put Guard into the same Multi.
type Held struct {
	c     *zk.Client
	path  string
	token int64
	base  context.Context    // values only
	stop  context.CancelFunc // ends the goroutines that keep watch

	mu     sync.Mutex
	ctx    context.Context
	end    context.CancelCauseFunc
	losses int   // of the connection, as far as noticed
	gone   error // why it is no longer held; nil while it may be
}

// hold starts to monitor a lock just acquired.
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

// Token returns the fencing token: a number that grows with each acquisition of
// the lock by whomever. It is the czxid of the lock's znode, so clients in any
// language can produce it.
func (h *Held) Token() int64 { return h.token }

// Path returns the path of the lock's znode.
func (h *Held) Path() string { return h.path }

// Client returns the client whose session the lock belongs to.
func (h *Held) Client() *zk.Client { return h.c }

// Guard returns an operation that makes a Multi fail with zk.ErrNoNode unless the
// lock is still held when the ensemble applies it.
func (h *Held) Guard() zk.MultiOp { return zk.CheckOp(h.path, zk.AnyVersion) }

// Context returns a context to work under while holding the lock. It has the
// values of the context the lock was acquired with, and it ends with the cause
//
//	ErrSuspended  when the connection is lost
//	ErrLost       when the session is over or the lock's znode was deleted
//	ErrReleased   when Unlock is called
//
// After ErrSuspended, Confirm tells if the lock is still held, and gives a new
// Context.
func (h *Held) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx
}

// Confirm asks the ensemble whether the lock is still held. It waits for a
// connection. If it is held, Context returns a context that has not ended (or
// that was ended by yet another loss of the connection); otherwise the error is
// ErrLost or ErrReleased.
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
			h.lose()
			_, err = h.renew(losses)
			return err
		case !again(ctx, err):
			return fmt.Errorf("recipe: confirm %s: %w", h.path, err)
		}
	}
}

// renew replaces an ended context, unless the connection was lost again since losses
// were counted: then the answer from before proves nothing. A loss that is noticed
// later ends the new context, which errs on the safe side.
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

// Unlock gives the lock back. The error is ErrLost if it had been lost before, so
// that there was a time when it didn't protect; the next holder is not affected.
// If ctx ends first, the release goes on without the caller until it is done or
// the session is over. It is idempotent.
func (h *Held) Unlock(ctx context.Context) error {
	defer h.stop() // after the deletion, which fires and so removes the watch
	h.mu.Lock()
	before := h.gone
	h.mu.Unlock()
	if errors.Is(before, ErrReleased) {
		return nil
	}
	gone := h.finish(ErrReleased)
	// A lock that counts as lost may still have its znode, and with it its place.
	err := remove(ctx, h.c, h.path)
	if !errors.Is(gone, ErrReleased) {
		return fmt.Errorf("recipe: unlock %s: %w", h.path, gone)
	}
	if errors.Is(err, zk.ErrNoNode) || zk.SessionLost(err) {
		return fmt.Errorf("recipe: unlock %s: %w", h.path, ErrLost)
	}
	return err
}

// finish records that the lock is no longer held, and returns why; the first
// reason stands.
func (h *Held) finish(why error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone == nil {
		h.gone = why
		h.end(why)
	}
	return h.gone
}

// lose records that the lock is lost, and ends the watch over it.
func (h *Held) lose() {
	h.finish(ErrLost)
	h.stop()
}

// suspend ends the present context.
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
		case err != nil || change.State.Final():
			h.lose()
			return
		case change.State != zk.StateConnected || change.Missed > 0:
			h.suspend()
		}
	}
}

// watchNode notices that somebody deleted the lock's znode.
func (h *Held) watchNode(life context.Context) {
	for h.Context().Err() == nil || errors.Is(context.Cause(h.Context()), ErrSuspended) {
		_, ok, w, err := h.c.ExistsW(life, h.path)
		switch {
		case err != nil && again(life, err):
			continue
		case err == nil && ok:
			w.Next(life) // whatever it says, look again
			w.Close()
			continue
		case err == nil:
			w.Close()
		case !zk.SessionLost(err) && life.Err() == nil:
			// Whatever the error means, the lock is in doubt rather than lost.
			h.suspend()
			if !pause(life, refusedPause) {
				return
			}
			continue
		}
		if life.Err() == nil {
			h.lose()
		}
		return
	}
}
