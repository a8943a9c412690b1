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
	Path string // of the changed znode, as this client names it
	Zxid int64  // of the change; -1 if the server doesn't tell
}

// String returns type and path.
func (e Event) String() string { return e.Type.String() + " " + e.Path }

// A Watch delivers events in the order the server sent them. It outlives lost
// connections: the client re-registers it, and a one-shot watch whose event
// happened meanwhile fires then. It ends when a one-shot watch has fired, when
// it is closed or removed, and when the session ends; Next tells which.
//
// A one-shot watch (GetW, ExistsW, ChildrenW) delivers one event. A persistent
// one (AddWatch) delivers all, and an EventResync where some may be missing.
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

// resync is the event that tells w's user to read again.
func (w *Watch) resync() Event { return Event{Type: EventResync, Path: w.Path(), Zxid: -1} }

// Path returns the watched path, as the client that set the watch names it.
func (w *Watch) Path() string { return stripRoot(w.root, w.path) }

// Next waits for the next event. After the last one it returns ErrWatchEnded, or
// what ended the session (see SessionLost). ctx bounds this wait only.
func (w *Watch) Next(ctx context.Context) (Event, error) {
	e, err := w.box.next(ctx)
	if err != nil {
		return e, fmt.Errorf("zk: watch %s: %w", w.Path(), err)
	}
	return e, nil
}

// Try returns the next event if there is one.
func (w *Watch) Try() (Event, bool) {
	e, ok, _ := w.box.try()
	return e, ok
}

// Ready returns a channel that yields when Try or Next may have something, the
// end included, for use in a select; it may yield in vain.
func (w *Watch) Ready() <-chan struct{} { return w.box.ready }

// Events returns an iterator over the events. It yields a last, zero event with
// the error when the watch or ctx ends; an ended watch without error just stops.
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

// Close ends the watch. When no watch of this client is left on the path, the
// server is told to forget its own. Close doesn't wait; it is idempotent.
func (w *Watch) Close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.endWatch(w, ErrWatchEnded)
}

// CloseOnDone closes the watch when ctx ends, and returns it. A watch that has ended for
// another reason leaves nothing behind in ctx. If it is called more than once, the last call
// counts.
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
