package zk

import (
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A watchKind is one of the ways in which the server can watch a path for this client.
type watchKind int

const (
	watchData watchKind = iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive
	watchKinds
)

func (k watchKind) persistent() bool { return k >= watchPersistent }

// hears reports whether a watch of kind k on the path of an event of type t receives the event. The server's rules are
// repeated here, since a notification doesn't say which watch it is for.
func (k watchKind) hears(t EventType) bool {
	switch k {
	case watchData, watchExist:
		return t != EventNodeChildrenChanged
	case watchChild:
		return t == EventNodeChildrenChanged || t == EventNodeDeleted
	case watchRecursive:
		return t != EventNodeChildrenChanged
	}
	return true
}

// matches reports whether t includes watches of kind k.
func (k watchKind) matches(t WatcherType) bool {
	switch t {
	case WatcherChildren:
		return k == watchChild
	case WatcherData:
		return k == watchData || k == watchExist
	case WatcherPersistent:
		return k == watchPersistent
	case WatcherPersistentRecursive:
		return k == watchRecursive
	}
	return t == WatcherAny
}

// A watchEntry is what the client knows about one path.
type watchEntry struct {
	of [watchKinds][]*Watch

	// expected counts registrations that are unanswered. Until they are answered, removing the path's watches at the
	// server could remove them too.
	expected int

	// stale marks the kinds of watch that the server may still have for this client, although no watch here needs them.
	stale [watchKinds]bool
}

func (e *watchEntry) anyStale() bool { return e.stale != [watchKinds]bool{} }

func (e *watchEntry) empty() bool {
	for _, v := range e.of {
		if len(v) > 0 {
			return false
		}
	}
	return true
}

// A watchTable holds a session's watches by absolute path. The server keeps one registration per path and kind, however
// many watches there are here. The session's lock guards it.
type watchTable struct {
	byPath    map[string]*watchEntry
	recursive int // recursive watches in the table
}

func newWatchTable() watchTable { return watchTable{byPath: map[string]*watchEntry{}} }

func (t *watchTable) entry(path string) *watchEntry {
	e := t.byPath[path]
	if e == nil {
		e = new(watchEntry)
		t.byPath[path] = e
	}
	return e
}

// expect records that a request to watch path is queued, and arrived that it was answered or has failed.
func (t *watchTable) expect(path string) { t.entry(path).expected++ }

func (t *watchTable) arrived(path string) {
	e := t.byPath[path]
	if e.expected--; e.expected == 0 && !e.anyStale() && e.empty() {
		delete(t.byPath, path)
	}
}

func (t *watchTable) add(w *Watch) {
	e := t.entry(w.path)
	e.of[w.kind] = append(e.of[w.kind], w)
	e.stale[w.kind] = false
	if w.kind == watchRecursive {
		t.recursive++
	}
}

// remove removes w and reports whether it was there.
func (t *watchTable) remove(w *Watch) bool {
	e := t.byPath[w.path]
	if e == nil {
		return false
	}
	i := slices.Index(e.of[w.kind], w)
	if i < 0 {
		return false
	}
	e.of[w.kind] = slices.Delete(e.of[w.kind], i, i+1)
	e.stale[w.kind] = len(e.of[w.kind]) == 0
	if w.kind == watchRecursive {
		t.recursive--
	}
	return true
}

// fire delivers ev, whose path is absolute, and ends the one-shot watches that it fires.
func (t *watchTable) fire(ev Event) {
	if e := t.byPath[ev.Path]; e != nil {
		for kind := range watchRecursive {
			if !kind.hears(ev.Type) {
				continue
			}
			for _, w := range e.of[kind] {
				w.deliver(ev)
			}
			if !kind.persistent() {
				e.of[kind], e.stale[kind] = nil, false
			}
		}
	}
	if t.recursive == 0 || !watchRecursive.hears(ev.Type) {
		return
	}
	for path := ev.Path; ; path = parentOf(path) {
		if e := t.byPath[path]; e != nil {
			for _, w := range e.of[watchRecursive] {
				w.deliver(ev)
			}
		}
		if path == "/" || path == "" {
			return
		}
	}
}

func (w *Watch) deliver(ev Event) {
	ev.Path = stripRoot(w.root, ev.Path)
	w.box.put(ev)
	if !w.kind.persistent() {
		w.finish(ErrWatchEnded)
	}
}

// parentOf returns the parent of p. The parent of "/" and of its children is "/".
func parentOf(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }

// resync tells every persistent watch that events may be missing.
func (t *watchTable) resync() {
	for _, e := range t.byPath {
		for _, kind := range []watchKind{watchPersistent, watchRecursive} {
			for _, w := range e.of[kind] {
				w.box.put(w.resync())
			}
		}
	}
}

// end ends every watch because the session has ended.
func (t *watchTable) end(why error) {
	for _, e := range t.byPath {
		for _, v := range e.of {
			for _, w := range v {
				w.finish(why)
			}
		}
	}
	clear(t.byPath)
	t.recursive = 0
}

// rearmBytes bounds the paths of one setWatches request, as in Apache's client: a server refuses a frame above
// jute.maxbuffer.
const rearmBytes = 128 << 10

// rearm returns the requests, in chunks, that register every watch again on a new connection. relativeZxid tells the
// server which changes to report at once. The new connection has no stale registrations.
func (t *watchTable) rearm(relativeZxid int64) []jute.SetWatches {
	var paths [watchKinds][]string
	for path, e := range t.byPath {
		e.stale = [watchKinds]bool{}
		for kind := range watchKinds {
			if len(e.of[kind]) > 0 {
				paths[kind] = append(paths[kind], path)
			}
		}
		if e.expected == 0 && e.empty() {
			delete(t.byPath, path)
		}
	}
	var chunks []jute.SetWatches
	size := 0
	for kind := range watchKinds {
		slices.Sort(paths[kind])
		for _, path := range paths[kind] {
			if size += len(path) + 4; len(chunks) == 0 || size > rearmBytes {
				size = len(path) + 4
				chunks = append(chunks, jute.SetWatches{ // empty lists, since Apache's server fails on null
					RelativeZxid: relativeZxid,
					Data:         []string{}, Exist: []string{}, Child: []string{}, Persistent: []string{}, PersistentTree: []string{},
				})
			}
			chunk := &chunks[len(chunks)-1]
			list := [watchKinds]*[]string{
				&chunk.Data, &chunk.Exist, &chunk.Child, &chunk.Persistent, &chunk.PersistentTree,
			}[kind]
			*list = append(*list, path)
		}
	}
	return chunks
}

// endWatch ends w for the reason why. The caller holds s.mu.
func (s *session) endWatch(w *Watch, why error) {
	if w.ended {
		return
	}
	w.finish(why)
	if s.watches.remove(w) {
		s.settlePath(w.path)
	}
}

// settleWatches updates the table after k's reply: the server now keeps a watch for this client, or has removed some.
// The caller holds s.mu.
func (s *session) settleWatches(k *call, code Code, sense bool) {
	if w := k.watch; w != nil {
		kept := sense && code == jute.OK
		if code == ErrNoNode && k.op == jute.OpExists {
			w.kind, kept = watchExist, true
		}
		switch {
		case kept && w.ended:
			s.watches.entry(k.abs).stale[w.kind] = true // the caller has left meanwhile
		case kept:
			s.watches.add(w)
		}
		s.watches.arrived(k.abs)
	}
	if e := s.watches.byPath[k.abs]; k.drop != 0 && code == jute.OK && e != nil {
		for kind := range watchKinds {
			for _, w := range slices.Clone(e.of[kind]) {
				if kind.matches(k.drop) {
					s.watches.remove(w)
					e.stale[kind] = false // the server has removed its own
					w.finish(ErrWatchEnded)
				}
			}
		}
	}
	s.settlePath(k.abs)
}

// settlePath removes path from the table when no watch is left there, and tells the server to remove a stale
// registration. It always removes all kinds at once, when the last watch of the path has gone, since servers before 3.9
// don't distinguish the kinds. The caller holds s.mu.
func (s *session) settlePath(path string) {
	e := s.watches.byPath[path]
	if e == nil || e.expected > 0 || !e.empty() {
		return
	}
	delete(s.watches.byPath, path)
	if e.anyStale() && s.link != nil && !s.closing {
		k := &call{op: jute.OpRemoveWatches, path: path}
		r := jute.WatchesRequest{Path: path, Type: WatcherAny}
		k.end(r.Append(k.begin()))
		s.enqueue(k)
	}
}
