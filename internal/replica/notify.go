package replica

import (
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// fire queues a notification for everybody who waits for the event and may read
// the znode; mu is held alone, since now (ns).
func (r *Replica) fire(ev *tree.Event, zxid, now int64) {
	if len(r.clients) == 0 {
		return // at the start, while the log is replayed
	}
	r.watchMu.Lock()
	r.scratch = r.watches.Trigger(r.scratch[:0], ev.Type, ev.Path)
	r.watchMu.Unlock()
	if len(r.scratch) == 0 {
		return
	}
	r.meters.told(ev.Type, len(r.scratch))
	told := 0
	r.event = appendNotification(r.event[:0], zxid, ev.Type, ev.Path)
	for _, id := range r.scratch {
		c := r.clients[id]
		if c == nil || !r.tree.Permits(ev.Path, ev.ACL, jute.PermRead, c.identities()) {
			continue
		}
		c.mu.Lock()
		if !c.closed && !c.closing {
			if c.out, c.applied = append(c.out, r.event...), true; c.fired == 0 {
				c.fired = now
			}
			c.stats.sent.Add(1)
			told++
			r.touch(c)
		}
		c.mu.Unlock()
		if len(r.touched) >= tellAtOnce {
			r.flush()
		}
	}
	r.stats.sent.Add(int64(told))
	r.meters.watchBytes.Add(int64(told * (len(r.event) - frameLengthSize)))
}

// appendNotification appends a whole notification frame.
func appendNotification(b []byte, zxid int64, typ jute.EventType, path string) []byte {
	ev := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return jute.AppendReply(b, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}, ev.Append)
}
