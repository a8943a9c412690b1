package floor

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/jute"
)

// watchTable holds the watches that getData has set. A setData notifies all watchers of its path once it is durable:
// that costs one lookup, one encoding of the notification, and one write to each connection.
type watchTable struct {
	left atomic.Int64

	mu      sync.Mutex
	waiting map[string][]*client // by path; a disconnected client stays until the next notification
}

// any reports whether any watch is set.
func (w *watchTable) any() bool { return w.left.Load() > 0 }

// add makes c wait for a change of path. A client added twice is notified twice.
func (w *watchTable) add(path string, c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string][]*client{}
	}
	w.waiting[path] = append(w.waiting[path], c)
	w.left.Add(1)
}

// fire notifies all clients that wait for path, on as many goroutines as there are processors. It doesn't wait for
// them.
func (w *watchTable) fire(path string) {
	w.mu.Lock()
	told := w.waiting[path]
	delete(w.waiting, path)
	w.left.Add(-int64(len(told)))
	w.mu.Unlock()
	ev := jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: jute.StateSyncConnected, Path: path}
	event := jute.AppendReply(nil, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: 1}, ev.Append)
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(told)) {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(told)); i = next.Add(1) - 1 {
				told[i].tell(event)
			}
		}()
	}
}

// tell writes a notification. The reply to a read sent meanwhile may overtake it.
func (c *client) tell(event []byte) {
	c.mu.Lock()
	c.out = append(c.out, event...)
	c.mu.Unlock()
	if c.flush() != nil {
		c.net.Close() // this ends its reader
	}
}

// pathOf returns the path at the start of most requests.
func pathOf(body []byte) string {
	var d jute.Decoder
	d.Reset(body)
	return d.String()
}
