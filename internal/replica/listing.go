package replica

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
)

// The output of dump, wchc and wchp can be as large as the tree. Every list here ends once its text
// reaches roughly the caller's limit in bytes, which bounds the time that locks are held, and the
// memory.

// SessionExpiry says when a session ends if its client stays silent.
type SessionExpiry struct {
	Session int64
	Timeout int32 // ms
	Expires time.Time
}

// SessionPaths is a session with the paths of its ephemeral znodes, or of the znodes it watches.
type SessionPaths struct {
	Session int64
	Paths   []string
}

// PathSessions is a path with the sessions that watch it.
type PathSessions struct {
	Path     string
	Sessions []int64
}

// sessionLineBytes is the size of the text of one session in a list.
const sessionLineBytes = 20

// listings lists sessions and watches, for operators. It only reads.
type listings struct {
	*outside
	*state
	watches *watches
	hearing *hearing
	expiry  *expiry.Queue
	locals  *locals
}

// SessionExpiries returns the global sessions, ordered by the time at which they expire, which is a
// whole number of ticks, and then by id. wall is the current time. more reports that the list was
// cut off.
func (l *listings) SessionExpiries(wall time.Time, limit int) (list []SessionExpiry, more bool) {
	now := l.now() / 1e6
	l.mu.RLock()
	l.tree.Sessions().All(func(t tree.Session) bool {
		if more = len(list)*sessionLineBytes >= limit; more {
			return false
		}
		if t.Scope == tree.Global {
			ends := l.expiry.Ends(t.ID, t.Timeout, l.hearing.heardAt(t.ID))
			list = append(list, SessionExpiry{t.ID, t.Timeout, after(wall, ends-now)})
		}
		return true
	})
	l.mu.RUnlock()
	slices.SortStableFunc(list, func(a, b SessionExpiry) int { return a.Expires.Compare(b.Expires) })
	return list, more
}

// LocalSessionExpiries is SessionExpiries for the sessions that are local to this
// server.
func (l *listings) LocalSessionExpiries(wall time.Time, limit int) (list []SessionExpiry, more bool) {
	now := l.now() / 1e6
	add := func(e *expiry.Queue, id int64, timeout int32) bool {
		if more = len(list)*sessionLineBytes >= limit; !more {
			list = append(list, SessionExpiry{id, timeout, after(wall, e.Ends(id, timeout, l.hearing.heardAt(id))-now)})
		}
		return !more
	}
	l.mu.RLock()
	for id, s := range l.locals.sessions { // any order: sorted below
		if !add(l.locals.expiry, id, s.timeout) {
			break
		}
	}
	if l.tree.Sessions().Locals(l.locals.server) > 0 {
		l.tree.Sessions().All(func(t tree.Session) bool {
			return t.Scope == tree.Global || t.ID>>56 != l.locals.server>>56 || add(l.expiry, t.ID, t.Timeout)
		})
	}
	l.mu.RUnlock()
	slices.SortFunc(list, func(a, b SessionExpiry) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Session, b.Session))
	})
	return list, more
}

// after returns the time ms milliseconds after t.
func after(t time.Time, ms int64) time.Time { return t.Add(time.Duration(ms) * time.Millisecond) }

// Ephemerals returns the sessions that have ephemeral znodes, ordered by id, with the paths in
// order of creation. more reports that the list was cut off.
func (s *state) Ephemerals(limit int) (list []SessionPaths, more bool) {
	var ids []int64
	s.mu.RLock()
	if s.tree.EphemeralsCount() > 0 {
		s.tree.Sessions().All(func(t tree.Session) bool {
			ids = append(ids, t.ID)
			return true
		})
	}
	s.mu.RUnlock()
	for _, id := range ids {
		if limit <= 0 {
			return list, true
		}
		s.mu.RLock()
		paths := s.tree.Sessions().EphemeralPaths(id, limit)
		s.mu.RUnlock()
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

// WatchSummary counts data watches, as wchs does; child watches are not counted.
func (l *listings) WatchSummary() watch.Summary {
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	return l.watches.table.Summary()
}

// watchedBy calls list with the watch table, which list may read until it returns, and with a
// function that returns the session of a watcher.
func (l *listings) watchedBy(list func(t *watch.Table, session func(watcher int64) int64)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	list(l.watches.table, func(watcher int64) int64 {
		if c := l.clients[watcher]; c != nil {
			return c.session
		}
		return 0
	})
}

// WatchesBySession returns the sessions connected here with the paths on which they have data
// watches. more reports that the list was cut off.
func (l *listings) WatchesBySession(limit int) (list []SessionPaths, more bool) {
	l.watchedBy(func(t *watch.Table, session func(int64) int64) {
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

// WatchesByPath returns the paths that have data watches, with the sessions that set them. more
// reports that the list was cut off.
func (l *listings) WatchesByPath(limit int) (list []PathSessions, more bool) {
	l.watchedBy(func(t *watch.Table, session func(int64) int64) {
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

// take collects the values of seq until their sizes use up limit, and returns them and the rest of
// limit.
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
