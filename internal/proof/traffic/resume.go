package traffic

import (
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A watchList has the watches that a client must set again after a reconnect. Paths are in the order in which they were
// first watched.
type watchList struct {
	data, exist, child, persistent, recursive []string
}

func addPath(list *[]string, path string) {
	if !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

func removePath(list *[]string, path string) {
	if i := slices.Index(*list, path); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// answered records the watch that an answered request has set.
func (w *watchList) answered(c *Call) {
	switch c.Op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var q jute.PathWatchRequest
		q.Decode(jute.NewDecoder(c.body))
		switch {
		case !q.Watch:
		case c.Op == jute.OpExists && c.Err == jute.ErrNoNode:
			addPath(&w.exist, q.Path)
		case c.Err != jute.OK:
		case c.Op == jute.OpGetData || c.Op == jute.OpExists:
			addPath(&w.data, q.Path)
		default:
			addPath(&w.child, q.Path)
		}
	case jute.OpAddWatch:
		var q jute.AddWatchRequest
		q.Decode(jute.NewDecoder(c.body))
		switch {
		case c.Err != jute.OK:
		case q.Mode == jute.AddWatchPersistentRecursive:
			addPath(&w.recursive, q.Path)
		default:
			addPath(&w.persistent, q.Path)
		}
	case jute.OpRemoveWatches:
		var q jute.WatchesRequest
		q.Decode(jute.NewDecoder(c.body))
		if c.Err == jute.OK && q.Type == jute.WatcherAny {
			for _, list := range []*[]string{&w.data, &w.exist, &w.child, &w.persistent, &w.recursive} {
				removePath(list, q.Path)
			}
		}
	}
}

// fired removes the one-shot watches that an event has fired.
func (w *watchList) fired(e *jute.WatcherEvent) {
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		removePath(&w.child, e.Path)
	}
	if e.Type != jute.EventNodeChildrenChanged {
		removePath(&w.data, e.Path)
		removePath(&w.exist, e.Path)
	}
}

// setWatches returns the request that sets all watches again, nil if there are none. It removes the one-shot watches
// from the list, since they may already have fired.
func (w *watchList) setWatches(zxid int64) (jute.Op, []byte) {
	if len(w.data)+len(w.exist)+len(w.child)+len(w.persistent)+len(w.recursive) == 0 {
		return 0, nil
	}
	q := jute.SetWatches{
		RelativeZxid: zxid, Data: w.data, Exist: w.exist, Child: w.child, Persistent: w.persistent,
		PersistentTree: w.recursive,
	}
	for _, list := range []*[]string{&q.Data, &q.Exist, &q.Child, &q.Persistent, &q.PersistentTree} {
		if *list == nil {
			*list = []string{}
		}
	}
	op := jute.OpSetWatches
	if len(w.persistent)+len(w.recursive) > 0 {
		op = jute.OpSetWatches2
	}
	return op, q.Append(nil, op)
}
