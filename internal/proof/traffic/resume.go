package traffic

import (
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// Watches has the watches that a client must set again after a reconnect. Paths are in the order in which they were
// first watched.
type Watches struct {
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

// Answered records the watch that an answered request has set or removed.
func (w *Watches) Answered(op jute.Op, body []byte, code jute.Code) {
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var q jute.PathWatchRequest
		if q.Decode(d); !q.Watch {
			return
		}
		switch {
		case op == jute.OpExists && code == jute.ErrNoNode:
			addPath(&w.exist, q.Path)
		case code != jute.OK:
		case op == jute.OpGetData || op == jute.OpExists:
			addPath(&w.data, q.Path)
		default:
			addPath(&w.child, q.Path)
		}
	case jute.OpAddWatch:
		var q jute.AddWatchRequest
		q.Decode(d)
		list := &w.persistent
		if q.Mode == jute.AddWatchPersistentRecursive {
			list = &w.recursive
		}
		if code == jute.OK {
			addPath(list, q.Path)
		}
	case jute.OpRemoveWatches:
		var q jute.WatchesRequest
		q.Decode(d)
		if code == jute.OK && q.Type == jute.WatcherAny {
			for _, list := range []*[]string{&w.data, &w.exist, &w.child, &w.persistent, &w.recursive} {
				removePath(list, q.Path)
			}
		}
	}
}

// Fired removes the one-shot watches that an event has fired.
func (w *Watches) Fired(e *jute.WatcherEvent) {
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		removePath(&w.child, e.Path)
	}
	if e.Type != jute.EventNodeChildrenChanged {
		removePath(&w.data, e.Path)
		removePath(&w.exist, e.Path)
	}
}

// Request returns the request that sets all watches again; its body is nil if there are none.
func (w *Watches) Request(zxid int64) (jute.Op, []byte) {
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
