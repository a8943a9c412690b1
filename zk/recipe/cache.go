package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/zk"
)

// A Cache is a copy of a znode, of a znode and its children, or of a whole tree, which one watch keeps up to date.
// Reading from it sends no request. If the znode doesn't exist, the cache is complete and empty until the znode is
// created. The constructors return at once; Wait waits until the cache is complete.
//
// It is never ahead of the ensemble, and follows with a short delay. Changes in quick succession may be seen as one. A
// znode that was deleted and created again is reported as removed and added. While the connection is lost, the copy
// doesn't change. Afterwards everything is read again, in a new session if necessary, and the differences become
// events. The cache has only znodes that this client may read, and may lack those below a znode that it may not read. A
// znode that becomes readable is added with the next change of its data. One that becomes unreadable stays as it was,
// even if it is deleted, until everything is read again. The metadata that change with a znode's children (NumChildren,
// Cversion, Pzxid) may be stale.
//
// It keeps everything in memory, without a limit. It needs servers with persistent watches (3.6 or later). Several
// goroutines may use it at once, also several iterators of Events.
type Cache struct {
	sessions *zk.Sessions
	root     string
	depth    int // of the deepest znodes in the cache, below root
	stop     context.CancelFunc
	done     chan struct{}

	mu      sync.RWMutex
	nodes   map[string]zk.Node
	fresh   bool          // nodes is complete and nothing is known to be missing
	err     error         // why the cache has ended; nil before
	changed chan struct{} // closed and replaced when fresh or err changes
	feeds   map[*feed]struct{}
}

// depthAll is deeper than any path.
const depthAll = 1 << 30

// NewNodeCache follows the znode at path. The caller must Close the Cache.
func NewNodeCache(sessions *zk.Sessions, path string) *Cache { return newCache(sessions, path, 0) }

// NewChildrenCache follows the znode at path and its children. The caller must Close the Cache.
func NewChildrenCache(sessions *zk.Sessions, path string) *Cache { return newCache(sessions, path, 1) }

// NewTreeCache follows the znode at path and all its descendants. The caller must Close the Cache.
func NewTreeCache(sessions *zk.Sessions, path string) *Cache {
	return newCache(sessions, path, depthAll)
}

func newCache(sessions *zk.Sessions, root string, depth int) *Cache {
	ctx, stop := context.WithCancel(context.Background())
	k := &Cache{
		sessions: sessions, root: root, depth: depth, stop: stop, done: make(chan struct{}),
		nodes: map[string]zk.Node{}, changed: make(chan struct{}), feeds: map[*feed]struct{}{},
	}
	go k.run(ctx)
	return k
}

// Get returns the znode at path, and whether the cache has it. path is the same as in the client's calls, not relative
// to the cache's znode. Before Wait returns, znodes may be missing. The caller must not change the data.
func (k *Cache) Get(path string) (zk.Node, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	node, ok := k.nodes[path]
	return node, ok
}

// Snapshot returns all znodes by path, as of one moment of the cache. The map belongs to the caller; the data must not
// be changed.
func (k *Cache) Snapshot() map[string]zk.Node {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return maps.Clone(k.nodes)
}

// Len returns the number of znodes in the cache.
func (k *Cache) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.nodes)
}

// Wait waits until the cache is complete, at the beginning or after a loss of the connection. It fails when ctx ends.
// It fails with ErrClosed if the cache is closed, with zk.ErrClosed if its zk.Sessions is closed, and with the error
// that has ended the cache, such as that of an invalid path, zk.ErrUnimplemented of a server without persistent
// watches, or zk.ErrReplyTooLarge for a znode or a list of children larger than zk.Options.MaxResponseBytes.
func (k *Cache) Wait(ctx context.Context) error {
	for {
		fresh, changed, err := k.state()
		if fresh || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("recipe: cache %s: %w", k.root, ctx.Err())
		}
	}
}

// state returns whether the cache is complete, a channel that is closed when it changes, and why the cache has ended.
func (k *Cache) state() (fresh bool, changed <-chan struct{}, err error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.fresh, k.changed, k.err
}

// Close ends the cache, and the iterators of Events with ErrClosed. Its content can still be read. Close is idempotent.
func (k *Cache) Close() {
	k.stop()
	<-k.done
}

func (k *Cache) run(ctx context.Context) {
	defer close(k.done)
	err := k.sessions.Run(ctx, func(c *zk.Client) error {
		err := k.follow(ctx, c)
		k.setFresh(false)
		return err
	})
	if ctx.Err() != nil {
		err = ErrClosed
	}
	k.end(err)
}

// follow keeps the cache up to date while the session lasts. A lost connection is always reported twice: by the states,
// and after the next connection by the watch's EventResync. follow takes the events before the states. So an
// EventResync always follows after a state has made the cache stale, and makes it fresh again.
func (k *Cache) follow(ctx context.Context, c *zk.Client) error {
	states := c.States()
	defer states.Close()
	w, err := k.watch(ctx, c)
	if err != nil {
		return err
	}
	defer w.Close()
	suspended(states) // changes from before the watch was set, which no EventResync follows
	r := &reader{c, batchMax}
	if err := k.resync(ctx, r); err != nil {
		return err
	}
	for {
		select {
		case <-states.Ready():
		case <-w.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
		dirty, resync, end := k.events(w)
		if suspended(states) {
			k.setFresh(false)
		}
		switch {
		case resync:
			err = k.resync(ctx, r)
		case len(dirty) > 0:
			err = k.refresh(ctx, r, dirty)
		default:
			err = end
		}
		if err != nil {
			return err
		}
	}
}

// suspended takes the state changes so far, and reports whether the connection was lost.
func suspended(states *zk.States) bool {
	lost := false
	for {
		change, ok := states.Try()
		if !ok {
			return lost
		}
		lost = lost || change.State == zk.StateConnecting || change.Missed > 0
	}
}

// watch sets the watch that covers the whole cache.
func (k *Cache) watch(ctx context.Context, c *zk.Client) (*zk.Watch, error) {
	mode := zk.AddWatchPersistentRecursive
	if k.depth == 0 {
		mode = zk.AddWatchPersistent
	}
	for {
		w, err := c.AddWatch(ctx, k.root, mode)
		if err == nil || !again(ctx, err) {
			return w, err
		}
	}
}

// events takes the events so far. It returns the paths in them, sorted, whether events may be missing, and the error
// that ended w after them; nil if w hasn't ended. No event may be taken elsewhere: nothing would report the change
// again.
func (k *Cache) events(w *zk.Watch) (dirty []string, resync bool, end error) {
	past, cancel := context.WithCancel(context.Background())
	cancel()
	paths := map[string]bool{}
	for {
		e, err := w.Next(past)
		switch {
		case errors.Is(err, context.Canceled):
			return slices.Sorted(maps.Keys(paths)), resync, nil
		case err != nil:
			return slices.Sorted(maps.Keys(paths)), resync, err
		case e.Type == zk.EventResync:
			resync = true
		case e.Type != zk.EventNodeChildrenChanged && k.covers(e.Path):
			paths[e.Path] = true
		}
	}
}

// refresh reads the changed znodes, each once even if several events name it: what it reads is at least as new as the
// events.
func (k *Cache) refresh(ctx context.Context, r *reader, dirty []string) error {
	for {
		found := make(map[string]zk.Node, len(dirty))
		err := r.read(ctx, dirty, func(path string, node zk.Node) { found[path] = node })
		if err == nil {
			k.apply(dirty, found)
			return nil
		}
		if !r.onceMore(ctx, err) {
			return err
		}
	}
}

// covers reports whether the znode at path belongs in the cache.
func (k *Cache) covers(path string) bool {
	if path == k.root {
		return true
	}
	below := path
	if k.root != "/" {
		var ok bool
		if below, ok = strings.CutPrefix(path, k.root+"/"); !ok {
			return false
		}
		below = "/" + below
	}
	return strings.Count(below, "/") <= k.depth
}

// resync reads everything again.
func (k *Cache) resync(ctx context.Context, r *reader) error {
	for {
		found, err := k.walk(ctx, r)
		if err == nil {
			k.replace(found)
			return nil
		}
		if !r.onceMore(ctx, err) {
			return err
		}
	}
}
