package zk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// An Event says what happened to a watched znode.
type Event struct {
	Type EventType
	Path string // of the changed znode, or of the watch for an EventResync; relative to the client's chroot
	Zxid int64  // of the change; -1 for an EventResync, for a change while disconnected, and from servers before 3.9
}

// String returns the type and the path.
func (e Event) String() string { return e.Type.String() + " " + e.Path }

// A Watch delivers events in the order in which the server sent them. Several goroutines may use it; each event goes to
// one of them. It survives lost connections: the client registers it again, and a one-shot watch whose event happened
// meanwhile fires then. It ends when a one-shot watch has fired, when it is closed or removed, and when the session
// ends. Unread events can still be read then.
//
// A one-shot watch (GetW, ExistsW, ChildrenW) delivers one event. A persistent one (AddWatch) delivers all events, and
// an EventResync when some may be missing. A watch outlives the context of the call that set it: Close one that is no
// longer needed, or it stays, here and at the server. Servers omit the events of znodes that the client may not read
// (Apache's since 3.8.4 and 3.9.2). Such an event uses up a one-shot watch, which doesn't fire.
type Watch struct {
	s    *session
	path string // absolute
	root string // the chroot of the client that set it
	kind watchKind
	box  mailbox[Event]

	// Guarded by s.mu.
	ended  bool
	detach func() bool // undoes CloseOnDone; may be nil
}

func (c *Client) newWatch(abs string, kind watchKind) *Watch {
	w := &Watch{s: c.s, path: abs, root: c.root, kind: kind}
	limit := 1
	if kind.persistent() {
		limit = c.s.opt.MaxUnreadEvents
	}
	w.box = newMailbox(limit, func([]Event) Event { return w.resync() })
	return w
}

// resync returns the event that tells w's user to read again.
func (w *Watch) resync() Event { return Event{Type: EventResync, Path: w.Path(), Zxid: -1} }

// Path returns the watched path, relative to the chroot of the client that set the watch, but absolute for GetConfigW.
func (w *Watch) Path() string { return stripRoot(w.root, w.path) }

// Next waits for the next event. After the last one, the error wraps ErrWatchEnded or the reason why the session ended
// (see SessionLost). If ctx ends, unread events still come first; then the error wraps ctx's. The watch continues.
func (w *Watch) Next(ctx context.Context) (Event, error) {
	e, err := w.box.next(ctx)
	if err != nil {
		return e, fmt.Errorf("zk: watch %s: %w", w.Path(), err)
	}
	return e, nil
}

// Try returns the next event without waiting. It returns false if there is none.
func (w *Watch) Try() (Event, bool) {
	e, ok, _ := w.box.try()
	return e, ok
}

// Ready returns a channel for use in a select. It yields a value when Try or Next may return an event or the watch's
// end, and sometimes when there is neither. Once the watch has ended, it always yields, and Try returns false: call
// Next to see the end. Several goroutines may receive from it; one that has received a value must call Try or Next,
// since the value wakes no other.
func (w *Watch) Ready() <-chan struct{} { return w.box.ready }

// Events returns an iterator over the events. If ctx or the session ends, the iterator yields the zero Event with the
// error and stops. If the watch ends for another reason, it just stops after the last event. Leaving the loop doesn't
// close the watch; another iterator continues with the next event.
func (w *Watch) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, end := w.box.next(ctx)
			if errors.Is(end, ErrWatchEnded) {
				return
			}
			if !yield(e, end) || end != nil {
				return
			}
		}
	}
}

// Close ends the watch. If it was the client's last watch on the path, the server is told to remove its own. Close
// doesn't wait. It is idempotent.
func (w *Watch) Close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.endWatch(w, ErrWatchEnded)
}

// CloseOnDone makes the watch close when ctx ends, and returns the watch. A watch that ends for another reason no
// longer refers to ctx. If CloseOnDone is called again, the last ctx counts.
func (w *Watch) CloseOnDone(ctx context.Context) *Watch {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.detach != nil {
		w.detach()
		w.detach = nil
	}
	if !w.ended {
		w.detach = context.AfterFunc(ctx, w.Close)
	}
	return w
}

// finish marks w as ended for the reason why. The caller holds s.mu.
func (w *Watch) finish(why error) {
	w.ended = true
	w.box.close(why)
	if w.detach != nil {
		w.detach()
		w.detach = nil
	}
}

func stripRoot(root, abs string) string {
	if root == "" || !strings.HasPrefix(abs, root) {
		return abs
	}
	if len(abs) == len(root) {
		return "/"
	}
	if abs[len(root)] != '/' {
		return abs
	}
	return abs[len(root):]
}
