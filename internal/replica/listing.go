package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
)

// The output of dump, wchc and wchp can be as large as the tree. Every list here ends once its text
// reaches roughly the caller's limit in bytes, which bounds the memory. Locks are held for a step at
// a time: what changes meanwhile may be listed as before or after.

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

const sessionsStep = 4 << 10 // sessions of one step of a list

// listings lists sessions and watches, for operators. It only reads.
type listings struct {
	*outside
	*state
	watches *watches
	hearing *hearing
	expiry  *expiry.Queue
	locals  *locals
}

// sessionIDs returns the ids of all sessions, ascending.
func (s *state) sessionIDs() []int64 {
	s.mu.RLock()
	ids := s.tree.Sessions().IDs()
	s.mu.RUnlock()
	slices.Sort(ids)
	return ids
}

// SessionExpiries returns the global sessions, ordered by the time at which they expire, which is a
// whole number of ticks, and then by id. wall is the current time. more reports that the list was
// cut off.
func (l *listings) SessionExpiries(wall time.Time, limit int) (list []SessionExpiry, more bool) {
	now := l.now() / 1e6
	add := func(ids []int64) {
		l.mu.RLock()
		defer l.mu.RUnlock()
		for _, id := range ids {
			if t, ok := l.tree.Sessions().Get(id); ok && t.Scope == tree.Global {
				ends := l.expiry.Ends(id, t.Timeout, l.hearing.heardAt(id))
				list = append(list, SessionExpiry{id, t.Timeout, after(wall, ends-now)})
			}
		}
	}
	most := (limit + sessionLineBytes - 1) / sessionLineBytes
	for ids := range slices.Chunk(l.sessionIDs(), sessionsStep) {
		if add(ids); len(list) > most {
			list, more = list[:most], true
			break
		}
	}
	slices.SortStableFunc(list, func(a, b SessionExpiry) int { return a.Expires.Compare(b.Expires) })
	return list, more
}

// LocalSessionExpiries is SessionExpiries for the sessions that are local to this server.
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
	for _, id := range s.sessionIDs() {
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

// watchedBy calls step with the watch table, which it may read, and a function that returns the session of a watcher.
func (l *listings) watchedBy(step func(t *watch.Table, session func(watcher int64) int64)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	step(l.watches.table, func(watcher int64) int64 {
		if c := l.clients[watcher]; c != nil {
			return c.session
		}
		return 0
	})
}

// WatchesBySession returns the sessions connected here with the paths on which they have data
// watches. more reports that the list was cut off.
func (l *listings) WatchesBySession(limit int) (list []SessionPaths, more bool) {
	entries := map[int64]int{} // of watchers, in list
	for at := (watch.Listing{}); !at.Ended() && limit > 0; {
		l.watchedBy(func(t *watch.Table, session func(int64) int64) {
			for watcher, path := range t.ByWatcher(&at) {
				entry, ok := entries[watcher]
				if !ok {
					entry = len(list)
					entries[watcher] = entry
					list = append(list, SessionPaths{Session: session(watcher)})
					limit -= sessionLineBytes
				}
				list[entry].Paths = append(list[entry].Paths, path)
				if limit -= len(path) + len("\t\n"); limit <= 0 {
					return
				}
			}
		})
	}
	return list, limit <= 0
}

// WatchesByPath returns the paths that have data watches, with the sessions that set them. more
// reports that the list was cut off.
func (l *listings) WatchesByPath(limit int) (list []PathSessions, more bool) {
	for at := (watch.Listing{}); !at.Ended() && limit > 0; {
		l.watchedBy(func(t *watch.Table, session func(int64) int64) {
			for path, watchers := range t.ByPath(&at) {
				entry := PathSessions{Path: path}
				limit -= len(path) + len("\n")
				for w := range watchers {
					if limit <= 0 {
						break
					}
					entry.Sessions = append(entry.Sessions, session(w))
					limit -= sessionLineBytes
				}
				if list = append(list, entry); limit <= 0 {
					return
				}
			}
		})
	}
	return list, limit <= 0
}
