package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// telling holds the pending notifications of an Apply under way; Replica.mu guards it.
type telling struct {
	touched []*Client // clients that got output during this Apply
	scratch []int64   // watchers of one event
	row     row       // consecutive events with the same watchers
}

// fire queues the notifications of a request's events for all watchers that may read the event's
// znode. now is in ns. mu is held for writing.
//
// A multi can have tens of thousands of events, usually with the same watchers: those of a
// recursive watch, or of a cache. Consecutive events with the same watchers are encoded together,
// and each watcher gets all of them at once.
func (r *Replica) fire(events []tree.Event, zxid, now int64) {
	if len(r.clients) == 0 {
		return // at the start, while the log is replayed
	}
	for i := range events {
		ev := &events[i]
		r.watches.mu.Lock()
		r.telling.scratch = r.watches.table.Trigger(r.telling.scratch[:0], ev.Type, ev.Path)
		r.watches.mu.Unlock()
		if len(r.telling.scratch) == 0 {
			continue
		}
		r.meters.told(ev.Type, len(r.telling.scratch))
		row := &r.telling.row
		if !row.continues(ev, r.telling.scratch, r.tree.Access().HasPolicy()) || len(row.frames) >= rowBytesMax {
			r.tell(now)
			row.begin(ev, r.telling.scratch)
		}
		r.telling.row.events++
		r.telling.row.frames = appendNotification(r.telling.row.frames, zxid, ev.Type, ev.Path)
	}
	r.tell(now)
}

// rowBytesMax bounds the notifications that are encoded before their watchers get them.
const rowBytesMax = 64 << 10

// A row is a run of events with the same watchers, readable by the same identities.
type row struct {
	events   int
	frames   []byte // their notifications
	watchers []int64
	first    tree.Event
}

// continues reports whether an event belongs to the row: it has the row's watchers, and the same
// identities may read its znode.
func (w *row) continues(ev *tree.Event, watchers []int64, policy bool) bool {
	if w.events == 0 || !slices.Equal(watchers, w.watchers) {
		return false
	}
	return (!policy || ev.Path == w.first.Path) && sameACL(ev.ACL, w.first.ACL)
}

// sameACL reports whether two ACLs are equal. Znodes share ACLs, so most are the same list, which may be long.
func sameACL(a, b []jute.ACL) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// begin starts a row with an event, which the caller counts.
func (w *row) begin(ev *tree.Event, watchers []int64) {
	w.watchers = append(w.watchers[:0], watchers...)
	w.first = *ev
}

// tell appends the row's notifications to the output of its watchers, and ends the row. now is in
// ns. mu is held for writing.
func (r *Replica) tell(now int64) {
	w := &r.telling.row
	if w.events == 0 {
		return
	}
	told, unread, most := int64(0), r.unread.bytes.Load(), 2*r.unread.max()
	for _, id := range w.watchers {
		c := r.clients[id]
		if c == nil || !r.tree.Access().MayHear(&w.first, c.identities()) {
			continue
		}
		c.mu.Lock()
		switch {
		case c.closed || c.closing:
		case unread+told*int64(len(w.frames)) > most:
			r.dropUnread(c)
		default:
			if invariant.Checked {
				c.out.zxids.Take(r.tree.LastZxid(), "the zxid of a connection's notifications")
			}
			if c.out.frames, c.out.applied = append(c.out.frames, w.frames...), true; c.out.fired == 0 {
				c.out.fired = now
			}
			c.out.events.waiting += len(w.frames)
			c.stats.sent.Add(int64(w.events))
			told++
			r.touch(c)
		}
		c.mu.Unlock()
		if len(r.telling.touched) >= tellAtOnce {
			r.flush(now)
		}
	}
	r.unread.bytes.Add(told * int64(len(w.frames)))
	r.stats.sent.Add(told * int64(w.events))
	r.meters.watchBytes.Add(told * int64(len(w.frames)-w.events*frameLengthSize))
	w.events, w.first = 0, tree.Event{}
	if w.frames = w.frames[:0]; cap(w.frames) > outputKeepBytes {
		w.frames = nil
	}
}

// appendNotification appends a whole notification frame.
func appendNotification(b []byte, zxid int64, typ jute.EventType, path string) []byte {
	ev := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return jute.AppendReply(b, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}, ev.Append)
}
