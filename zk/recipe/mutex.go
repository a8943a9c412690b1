package recipe

import (
	"context"

	"github.com/zooid-project/zooid/zk"
)

// A Locker is a lock on one path: a Mutex, or a side of an RWLock.
type Locker interface {
	// Lock waits for the lock until ctx or the session ends.
	Lock(ctx context.Context) (*Held, error)
	// Path returns the path of the lock's directory.
	Path() string
}

// lockMarks are the names of a mutex's participants: Curator's
// InterProcessMutex and LeaderSelector, and kazoo's Lock and Election.
var lockMarks = marks{exclusive: []string{"lock-", "__lock__"}}

// A Mutex is a lock that one client at a time holds, in the order of their requests. It
// is not reentrant: locking it twice deadlocks.
//
// Its layout is that of Curator's InterProcessMutex. kazoo's Lock takes turns
// with it if made with extra_lock_patterns=["lock-"]; for one that all three
// share, kazoo's must also have the name Curator sorts by (a subclass with
// _NODE_NAME = "-lock-"), as Curator doesn't know of others.
//
// On a lost connection a waiter keeps its place and goes on waiting; when the
// session expires Lock fails with zk.ErrSessionExpired. For the holder see Held.
type Mutex struct{ line line }

// NewMutex returns the mutex whose participants are children of path. Nothing is
// created yet.
func NewMutex(c *zk.Client, path string, opt Options) *Mutex {
	return &Mutex{line{c: c, dir: path, name: "lock-", marks: lockMarks, opt: opt}}
}

// Lock waits for the lock until ctx or the session ends.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) { return m.line.lock(ctx, true) }

// TryLock takes the lock if nobody has it or waits for it, else fails with
// ErrTaken.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) { return m.line.lock(ctx, false) }

// Path returns the path of the lock's directory.
func (m *Mutex) Path() string { return m.line.dir }

// Participants returns the holder, if there is one, and those who wait behind it
// in order.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.line.participants(ctx)
}
