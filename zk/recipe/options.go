package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// Options configure a recipe. The zero value is a good choice. Data and ACL must not change while the recipe is used.
type Options struct {
	// Data is stored in the znode of this participant, claim, ledger or new barrier, such as an address or a name that
	// tells others which participant holds a lock or leads. Value, Counter and Discovery don't use it.
	Data []byte

	// ACL applies to every znode that the recipe creates, including missing parents. It must permit all clients that use
	// the recipe at its path to read, write, create and delete: a client that may not read the others' znodes fails with
	// zk.ErrNoAuth, or doesn't notice their changes. With zk.CreatorACL all need the same identity. Nil means
	// zk.WorldACL(zk.PermAll), as in Curator.
	ACL []zk.ACL
}

func (o Options) acl() []zk.ACL {
	if o.ACL == nil {
		return zk.WorldACL(zk.PermAll)
	}
	return o.ACL
}

// The causes of the end of a lock's Context, and the error of an attempt to lock.
var (
	// ErrSuspended says that the connection was lost. The lock may still be held, or another client may get it soon:
	// stop using the resource, then call Held.Confirm.
	ErrSuspended = errors.New("the connection was lost, so the lock may be lost too")

	// ErrLost says that the lock is lost: its session has ended, or another client deleted its znode. In the first case
	// the error wraps the session's too, so zk.SessionLost holds.
	ErrLost = errors.New("the lock is lost")

	// ErrReleased says that the holder released the lock.
	ErrReleased = errors.New("the lock was released")

	// ErrTaken says that TryLock would have had to wait for others.
	ErrTaken = errors.New("the lock is held by another")
)

// ErrClosed says that the program closed the Cache, Ephemeral, Group, Latch or Provider by its Close. The session and
// its zk.Sessions continue, so zk.SessionLost doesn't hold. If the zk.Sessions was closed, the error is zk.ErrClosed.
var ErrClosed = errors.New("the recipe is closed")

// again reports whether to try again after err: the connection was lost, the server refused the request to shed load,
// or it has lost its quorum, and neither ctx nor the session has ended. The caller must make sure that repeating the
// request does no harm.
func again(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil, zk.SessionLost(err):
		return false
	case errors.Is(err, zk.ErrThrottledOp), errors.Is(err, zk.ErrNotReadOnly):
		return pause(ctx, refusedPause)
	}
	return zk.Retryable(err) || zk.MaybeApplied(err) // the next call waits for a connection
}

// refusedPause is the pause before another attempt at a server that temporarily refuses writes.
const refusedPause = 100 * time.Millisecond

// pause waits from d/2 to d. It returns false if ctx ends first.
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

// parentOf returns the parent of p; the parent of "/" is "/".
func parentOf(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }

// nameOf returns the last part of p.
func nameOf(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }
