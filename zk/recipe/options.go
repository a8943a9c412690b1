package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// Options adjust a recipe. The zero value is a good choice.
type Options struct {
	// Data is kept in the znode that stands for this participant: an address or
	// a name that tells others who holds a lock or leads.
	Data []byte

	// ACL is given to every znode the recipe creates, missing parents included.
	// Nil means zk.WorldACL(zk.PermAll), as in Curator.
	ACL []zk.ACL
}

func (o Options) acl() []zk.ACL {
	if o.ACL == nil {
		return zk.WorldACL(zk.PermAll)
	}
	return o.ACL
}

// The causes for which a lock's Context ends, and the errors that say how an
// attempt to lock went.
var (
	// ErrSuspended says that the connection was lost. The lock may still be held,
	// or another client may have it soon: stop acting, then ask Held.Confirm.
	ErrSuspended = errors.New("the connection was lost, so the lock may be lost too")

	// ErrLost says that the lock is gone: its session is over, or somebody
	// deleted its znode.
	ErrLost = errors.New("the lock is lost")

	// ErrReleased says that the holder gave the lock back.
	ErrReleased = errors.New("the lock was released")

	// ErrTaken says that an attempt that doesn't wait found the lock held by
	// another.
	ErrTaken = errors.New("the lock is held by another")
)

// again reports whether what failed with err is worth doing again now: ctx and
// session last, and only the connection was lost, the server shed load, or it has
// lost its quorum. The caller must have made sure that doing it twice does no harm.
func again(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil, zk.SessionLost(err):
		return false
	case errors.Is(err, zk.ErrThrottledOp), errors.Is(err, zk.ErrNotReadOnly):
		return pause(ctx, refusedPause)
	}
	return zk.Retryable(err) || zk.MaybeApplied(err) // the next call waits for a connection
}

// refusedPause is the pause between attempts at a server that can't take writes for now.
const refusedPause = 100 * time.Millisecond

// pause waits from d/2 to d, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// join returns the path of the znode name in dir.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// parentOf returns the path above p, "/" at the top.
func parentOf(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }

// nameOf returns the last part of p.
func nameOf(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }
