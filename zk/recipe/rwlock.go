package recipe

import (
	"context"

	"github.com/zooid-project/zooid/zk"
)

// rwMarks are the names of Curator's InterProcessReadWriteLock and of kazoo's
// ReadLock and WriteLock.
var rwMarks = marks{exclusive: []string{"__WRIT__", "__lock__"}, shared: []string{"__READ__", "__rlock__"}}

// An RWLock is held by any number of readers or by one writer. It is granted in the order of the requests: a reader
// waits for writers that asked before it, so neither side starves. It is not reentrant: locking either side again
// before Unlock may deadlock, and a reader that locks the writer's side waits for itself.
//
// Its layout is that of Curator's InterProcessReadWriteLock. To share it, make kazoo's WriteLock with
// extra_lock_patterns=["__WRIT__", "__READ__"] and its ReadLock with ["__WRIT__"]. See Mutex and Held for lost
// connections and sessions.
type RWLock struct{ read, write Side }

// A Side is the reading or the writing side of an RWLock.
type Side struct{ line line }

// NewRWLock returns the lock whose participants are children of path. It sends no request.
func NewRWLock(c *zk.Client, path string, opt Options) *RWLock {
	return &RWLock{
		read:  Side{line{c: c, dir: path, name: "__READ__", shared: true, marks: rwMarks, opt: opt}},
		write: Side{line{c: c, dir: path, name: "__WRIT__", marks: rwMarks, opt: opt}},
	}
}

// Reader returns the side that readers share.
func (l *RWLock) Reader() *Side { return &l.read }

// Writer returns the exclusive side.
func (l *RWLock) Writer() *Side { return &l.write }

// Participants returns the readers and writers that hold the lock or wait for it, in the order of their requests. It
// takes a request for each.
func (l *RWLock) Participants(ctx context.Context) ([]Participant, error) {
	return l.read.line.participants(ctx)
}

// Lock waits for this side until ctx or the session ends.
//
// Several readers hold the lock at once, so a resource must not compare readers' tokens with each other (Held.Token).
// It refuses a reader whose token is lower than one it has seen from a writer, and a writer whose token is lower than
// any it has seen.
func (s *Side) Lock(ctx context.Context) (*Held, error) { return s.line.lock(ctx, true) }

// TryLock acquires this side if it needn't wait for others, and otherwise fails with ErrTaken. It waits for a
// connection.
func (s *Side) TryLock(ctx context.Context) (*Held, error) { return s.line.lock(ctx, false) }

// Path returns the path of the lock's directory.
func (s *Side) Path() string { return s.line.dir }
