package replica

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
)

// What dump, wchc and wchp list can be as large as the tree. Every list here
// ends once it is about as large as the limit that its caller gives, in bytes of
// text, so that neither a lock is held nor memory taken for longer than that.

// SessionExpiry says when a session ends if nothing is heard of its client.
type SessionExpiry struct {
	Session int64
	Timeout int32 // ms
	Expires time.Time
}

// SessionPaths is a session with paths: of its ephemeral znodes, or of those it
// watches.
type SessionPaths struct {
	Session int64
	Paths   []string
}

// PathSessions is a path with the sessions that watch it.
type PathSessions struct {
	Path     string
	Sessions []int64
}

// size of the text of one session in a list.
const sessionLineBytes = 20

// SessionExpiries returns the global sessions by the time at which they end, which
// is a whole number of ticks, and then by id. wall is the time now. more says that
// the list was cut.
func (r *Replica) SessionExpiries(wall time.Time, limit int) (list []SessionExpiry, more bool) {
	now := r.now() / 1e6
	r.mu.RLock()
	r.tree.Sessions(func(t tree.Session) bool {
		if more = len(list)*sessionLineBytes >= limit; more {
			return false
		}
		if t.Scope == tree.Global {
			list = append(list, SessionExpiry{t.ID, t.Timeout, after(wall, r.ends(&r.expiry, t.ID, t.Timeout)-now)})
		}
		return true
	})
	r.mu.RUnlock()
	slices.SortStableFunc(list, func(a, b SessionExpiry) int { return a.Expires.Compare(b.Expires) })
	return list, more
}

// LocalSessionExpiries is SessionExpiries for the sessions that are local to this
// server.
func (r *Replica) LocalSessionExpiries(wall time.Time, limit int) (list []SessionExpiry, more bool) {
	now := r.now() / 1e6
	add := func(e *expiry, id int64, timeout int32) bool {
		if more = len(list)*sessionLineBytes >= limit; !more {
			list = append(list, SessionExpiry{id, timeout, after(wall, r.ends(e, id, timeout)-now)})
		}
		return !more
	}
	r.mu.RLock()
	for id, l := range r.locals.sessions { // any order: sorted below
		if !add(&r.locals.expiry, id, l.timeout) {
			break
		}
	}
	if r.tree.LocalSessions(r.locals.server) > 0 {
		r.tree.Sessions(func(t tree.Session) bool {
			return t.Scope == tree.Global || t.ID>>56 != r.locals.server>>56 || add(&r.expiry, t.ID, t.Timeout)
		})
	}
	r.mu.RUnlock()
	slices.SortFunc(list, func(a, b SessionExpiry) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Session, b.Session))
	})
	return list, more
}

// ends returns when (ms) a session that e knows ends if nothing more is heard of it.
func (r *Replica) ends(e *expiry, session int64, timeout int32) int64 {
	heard := r.heardAt(session)
	if l := e.sessions[session]; l != nil {
		heard = e.heardOf(l, heard)
	}
	return max((heard+int64(timeout))/e.tick+1, e.next) * e.tick
}

// after returns the time that many ms after t.
func after(t time.Time, ms int64) time.Time { return t.Add(time.Duration(ms) * time.Millisecond) }

// Ephemerals returns the sessions with ephemeral znodes, by id, with the paths
// in the order of creation. more says that the list was cut.
func (r *Replica) Ephemerals(limit int) (list []SessionPaths, more bool) {
	var ids []int64
	r.mu.RLock()
	if r.tree.EphemeralsCount() > 0 {
		r.tree.Sessions(func(t tree.Session) bool {
			ids = append(ids, t.ID)
			return true
		})
	}
	r.mu.RUnlock()
	for _, id := range ids {
		if limit <= 0 {
			return list, true
		}
		r.mu.RLock()
		paths := r.tree.EphemeralPaths(id)
		r.mu.RUnlock()
		if len(paths) > 0 {
			list = append(list, SessionPaths{id, paths})
			limit -= textBytes(paths)
		}
	}
	return list, limit <= 0
}

func textBytes(paths []string) int {
	n := sessionLineBytes
	for _, p := range paths {
		n += len(p) + len("\t\n")
	}
	return n
}

// WatchSummary counts data watches, as wchs does; child watches don't count.
func (r *Replica) WatchSummary() watch.Summary {
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	return r.watches.Summary()
}

// watchedBy runs list, which reads the watches until it returns, and gives it
// the session of each watcher.
func (r *Replica) watchedBy(list func(t *watch.Table, session func(watcher int64) int64)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	list(r.watches, func(watcher int64) int64 {
		if c := r.clients[watcher]; c != nil {
			return c.session
		}
		return 0
	})
}

// WatchesBySession returns the sessions connected here with the paths that they
// have data watches on. more says that the list was cut.
func (r *Replica) WatchesBySession(limit int) (list []SessionPaths, more bool) {
	r.watchedBy(func(t *watch.Table, session func(int64) int64) {
		for watcher, paths := range t.ByWatcher() {
			if more = limit <= 0; more {
				return
			}
			list = append(list, SessionPaths{Session: session(watcher)})
			entry := &list[len(list)-1]
			limit -= sessionLineBytes
			entry.Paths, limit = take(paths, limit, func(p string) int { return len(p) + len("\t\n") })
		}
	})
	return list, more || limit <= 0
}

// WatchesByPath returns the paths with data watches and the sessions that left
// them. more says that the list was cut.
func (r *Replica) WatchesByPath(limit int) (list []PathSessions, more bool) {
	r.watchedBy(func(t *watch.Table, session func(int64) int64) {
		for path, watchers := range t.ByPath() {
			if more = limit <= 0; more {
				return
			}
			list = append(list, PathSessions{Path: path})
			entry := &list[len(list)-1]
			limit -= len(path) + len("\n")
			entry.Sessions, limit = take(watchers, limit, func(int64) int { return sessionLineBytes })
			for i, w := range entry.Sessions {
				entry.Sessions[i] = session(w)
			}
		}
	})
	return list, more || limit <= 0
}

// take collects what seq yields until limit is used up by sizes, and returns
// what is left of limit.
func take[T any](seq iter.Seq[T], limit int, size func(T) int) ([]T, int) {
	var list []T
	for v := range seq {
		if limit <= 0 {
			break
		}
		list = append(list, v)
		limit -= size(v)
	}
	return list, limit
}
