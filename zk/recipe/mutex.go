package recipe

import (
	"context"

	"github.com/zooid-project/zooid/zk"
)

// A Locker is a lock on one path: a Mutex, or a side of an RWLock.
type Locker interface {
	// Lock waits for the lock until ctx or the session ends.
	Lock(ctx context.Context) (*Held, error)
	// Path returns the path of the lock's directory, relative to the chroot of the lock's client.
	Path() string
}

// lockMarks are the names of a mutex's participants in Curator's InterProcessMutex and LeaderSelector and in kazoo's
// Lock and Election.
var lockMarks = marks{exclusive: []string{"lock-", "__lock__"}}

// A Mutex is a lock that one client at a time holds, in the order of their requests. Goroutines that lock one Mutex
// exclude each other too. It is not reentrant: locking it twice deadlocks.
//
// Its layout is that of Curator's InterProcessMutex. To share it with this Mutex, make kazoo's Lock with
// extra_lock_patterns=["lock-"]. If Curator takes part too, kazoo's Lock must also use the name that Curator sorts by,
// in a subclass with _NODE_NAME = "-lock-", since Curator doesn't recognize other names.
//
// When the connection is lost, a waiter keeps its place and continues to wait. If another client deletes its znode, it
// moves to the end of the line. When the session expires, Lock fails with zk.ErrSessionExpired. See Held for what the
// holder does. If the connection was lost while Lock returned, Held.Context has ended already.
type Mutex struct{ line line }

// NewMutex returns the mutex whose participants are children of path. It sends no request.
func NewMutex(c *zk.Client, path string, opt Options) *Mutex {
	return &Mutex{line{c: c, dir: path, name: "lock-", marks: lockMarks, opt: opt}}
}

// Lock waits for the lock until ctx or the session ends.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) { return m.line.lock(ctx, true) }

// TryLock acquires the lock if nobody holds it or waits for it, and otherwise fails with ErrTaken. Another TryLock that
// hasn't returned yet counts as waiting. TryLock waits for a connection, but never for others.
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) { return m.line.lock(ctx, false) }

// Path returns the path of the lock's directory.
func (m *Mutex) Path() string { return m.line.dir }

// Participants returns the holder, if there is one, and then those that wait, in order. It takes a request for each.
// The list may already be out of date.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.line.participants(ctx)
}
