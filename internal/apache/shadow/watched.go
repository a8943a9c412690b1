package shadow

import (
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// watched holds, by path, the notifications of a connection that only one side has sent so far.
type watched map[string]*unmatched

// unmatched holds the notifications of one path, in order. At most one list has elements.
type unmatched struct {
	primary, shadow []jute.EventType
	replies         int // replies that have come since
}

// patienceReplies is how many replies may pass until the other side must have sent the notification too.
const patienceReplies = 2

// add adds the notifications that came before one reply on both sides. It returns, and forgets, the paths at which
// their order differs.
func (w watched) add(primary, shadow []jute.WatcherEvent) (differ []*Difference) {
	at := func(path string) *unmatched {
		if w[path] == nil {
			w[path] = &unmatched{}
		}
		return w[path]
	}
	for _, e := range primary {
		at(e.Path).primary = append(at(e.Path).primary, e.Type)
	}
	for _, e := range shadow {
		at(e.Path).shadow = append(at(e.Path).shadow, e.Type)
	}
	for path, u := range w {
		n := 0
		for n < len(u.primary) && n < len(u.shadow) && u.primary[n] == u.shadow[n] {
			n++
		}
		u.primary, u.shadow = u.primary[n:], u.shadow[n:]
		switch {
		case len(u.primary) == 0 && len(u.shadow) == 0:
			delete(w, path)
		case len(u.primary) > 0 && len(u.shadow) > 0:
			differ = append(differ, u.difference(path))
			delete(w, path)
		}
	}
	return differ
}

// aged counts a reply, and returns the paths that have waited for enough replies, or all paths.
func (w watched) aged(all bool) (paths []string) {
	for path, u := range w {
		if u.replies++; all || u.replies >= patienceReplies {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// count returns the number of unmatched notifications.
func (w watched) count() (n int) {
	for _, u := range w {
		n += len(u.primary) + len(u.shadow)
	}
	return n
}

func (u *unmatched) difference(path string) *Difference {
	return &Difference{Op: "watch", Path: path, Fields: []Field{{"events", eventsText(u.primary), eventsText(u.shadow)}}}
}

// eventsText returns notifications as a short text.
func eventsText(events []jute.EventType) string {
	if len(events) == 0 {
		return "none"
	}
	names := map[jute.EventType]string{jute.EventNodeCreated: "created", jute.EventNodeDeleted: "deleted",
		jute.EventNodeDataChanged: "changed", jute.EventNodeChildrenChanged: "children"}
	text := ""
	for i, e := range events {
		if i == namesShown {
			return text + fmt.Sprintf(" … of %d", len(events))
		}
		if i > 0 {
			text += " "
		}
		if name := names[e]; name != "" {
			text += name
		} else {
			text += fmt.Sprintf("type %d", e)
		}
	}
	return text
}
