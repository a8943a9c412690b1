package sim

import (
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// watches holds the watches that a client sets again after a reconnect, as client
// libraries do.
type watches struct {
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

// answered records the watch that an answered request left.
func (w *watches) answered(op jute.Op, body []byte, code jute.Code) {
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var q jute.PathWatchRequest
		q.Decode(d)
		switch {
		case !q.Watch:
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
		switch {
		case code != jute.OK:
		case q.Mode == jute.AddWatchPersistentRecursive:
			addPath(&w.recursive, q.Path)
		default:
			addPath(&w.persistent, q.Path)
		}
	case jute.OpRemoveWatches:
		var q jute.WatchesRequest
		q.Decode(d)
		if code == jute.OK && q.Type == jute.WatcherAny {
			for _, list := range w.lists() {
				removePath(list, q.Path)
			}
		}
	}
}

func (w *watches) lists() []*[]string {
	return []*[]string{&w.data, &w.exist, &w.child, &w.persistent, &w.recursive}
}

// fired forgets the one-shot watches that an event has used up.
func (w *watches) fired(e *jute.WatcherEvent) {
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		removePath(&w.child, e.Path)
	}
	if e.Type != jute.EventNodeChildrenChanged {
		removePath(&w.data, e.Path)
		removePath(&w.exist, e.Path)
	}
}

// request returns the request that sets all watches again; body is nil if there
// are none.
func (w *watches) request(zxid int64) (op jute.Op, body []byte) {
	q := jute.SetWatches{
		RelativeZxid: zxid, Data: w.data, Exist: w.exist, Child: w.child, Persistent: w.persistent,
		PersistentTree: w.recursive,
	}
	n := 0
	for i, list := range []*[]string{&q.Data, &q.Exist, &q.Child, &q.Persistent, &q.PersistentTree} {
		n += len(*w.lists()[i])
		if *list == nil {
			*list = []string{}
		}
	}
	if n == 0 {
		return 0, nil
	}
	op = jute.OpSetWatches
	if len(w.persistent)+len(w.recursive) > 0 {
		op = jute.OpSetWatches2
	}
	return op, q.Append(nil, op)
}
