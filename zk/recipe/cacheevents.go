package recipe

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/zk"
)

// A CacheEventType says what happened to a Cache.
type CacheEventType int

// The events of a Cache.
const (
	CacheAdded   CacheEventType = iota // Path was added to the cache; Node is its content
	CacheChanged                       // Path's data changed; Node is its new content
	CacheRemoved                       // Path was removed from the cache; Node is its last content

	// CacheFresh follows the events that made the cache complete, at the beginning and after each CacheStale.
	CacheFresh

	// CacheStale says that the connection was lost. The cache doesn't change until CacheFresh.
	CacheStale

	// CacheReset says that the reader was too slow and has missed events. The reader must forget everything; the whole
	// content follows as CacheAdded.
	CacheReset
)

var cacheEventNames = [...]string{"added", "changed", "removed", "fresh", "stale", "reset"}

// String returns the type as a word.
func (t CacheEventType) String() string {
	if t < 0 || int(t) >= len(cacheEventNames) {
		return fmt.Sprintf("CacheEventType(%d)", int(t))
	}
	return cacheEventNames[t]
}

// A CacheEvent is a change of a Cache's content or state.
type CacheEvent struct {
	Type CacheEventType
	Path string  // "" for CacheFresh, CacheStale and CacheReset
	Node zk.Node // zero if Path is ""; the data must not be changed
}

// feedMax bounds the unread events of a slow reader. Beyond it, reading the whole content again is cheaper than
// catching up.
const feedMax = 4096

// A feed is the queue of events of one reader. Cache.mu guards its fields.
type feed struct {
	items []CacheEvent
	lost  bool          // items were dropped
	ready chan struct{} // holds a token if there may be something to read
}

// Events returns an iterator over the events of the cache. Each loop over it begins with the present content as
// CacheAdded, parents first, then CacheFresh if the cache is complete. It ends with the error with which Wait fails:
// when ctx ends, and after the last event of a cache that has ended. A slow reader never blocks the cache: with more
// than 4,096 unread events it gets a CacheReset.
func (k *Cache) Events(ctx context.Context) iter.Seq2[CacheEvent, error] {
	return func(yield func(CacheEvent, error) bool) {
		f, items := k.subscribe()
		defer k.unsubscribe(f)
		for {
			for _, e := range items {
				if !yield(e, nil) {
					return
				}
			}
			var err error
			if items, err = k.more(ctx, f); err != nil {
				yield(CacheEvent{}, err)
				return
			}
		}
	}
}

// subscribe returns a new feed, and the present content as events. The caller must unsubscribe it.
func (k *Cache) subscribe() (*feed, []CacheEvent) {
	f := &feed{ready: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.feeds[f] = struct{}{}
	return f, k.content()
}

func (k *Cache) unsubscribe(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.feeds, f)
}

// more waits for events of f.
func (k *Cache) more(ctx context.Context, f *feed) ([]CacheEvent, error) {
	for {
		k.mu.Lock()
		items := f.items
		f.items = nil
		if f.lost {
			f.lost = false
			items = append([]CacheEvent{{Type: CacheReset}}, k.content()...)
		}
		err, changed := k.err, k.changed
		k.mu.Unlock()
		if len(items) > 0 {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-f.ready:
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("recipe: cache %s: %w", k.root, ctx.Err())
		}
	}
}

// content returns the cache as events. The caller holds k.mu.
func (k *Cache) content() []CacheEvent {
	var items []CacheEvent
	for _, path := range slices.Sorted(maps.Keys(k.nodes)) {
		items = append(items, CacheEvent{CacheAdded, path, k.nodes[path]})
	}
	if k.fresh {
		items = append(items, CacheEvent{Type: CacheFresh})
	}
	return items
}

// tell appends an event to every feed. The caller holds k.mu.
func (k *Cache) tell(e CacheEvent) {
	for f := range k.feeds {
		if f.lost {
			continue
		}
		if f.items = append(f.items, e); len(f.items) > feedMax {
			f.items, f.lost = nil, true
		}
		select {
		case f.ready <- struct{}{}:
		default:
		}
	}
}

// apply applies the result of reading paths, which are sorted. Children are removed before their parents, and added
// after them.
func (k *Cache) apply(paths []string, found map[string]zk.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.merge(paths, found)
}

// replace applies the result of a whole walk. Only its caller changes nodes, so the search for differences, which takes
// long in a large tree, needs no lock and blocks no reader.
func (k *Cache) replace(found map[string]zk.Node) {
	var differ []string
	for path, was := range k.nodes {
		if now, has := found[path]; !has || now.Stat.Mzxid != was.Stat.Mzxid || now.Stat.Czxid != was.Stat.Czxid {
			differ = append(differ, path)
		}
	}
	for path := range found {
		if _, had := k.nodes[path]; !had {
			differ = append(differ, path)
		}
	}
	slices.Sort(differ)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.feeds) > 0 {
		k.merge(differ, found)
	}
	k.nodes = found
	k.mark(true)
}

// merge makes the cache equal to found for the given paths. The caller holds k.mu.
func (k *Cache) merge(paths []string, found map[string]zk.Node) {
	for _, path := range slices.Backward(paths) {
		was, had := k.nodes[path]
		now, has := found[path]
		if had && (!has || now.Stat.Czxid != was.Stat.Czxid) {
			delete(k.nodes, path)
			k.tell(CacheEvent{CacheRemoved, path, was})
		}
	}
	for _, path := range paths {
		now, has := found[path]
		if !has {
			continue
		}
		was, had := k.nodes[path]
		k.nodes[path] = now
		switch {
		case !had:
			k.tell(CacheEvent{CacheAdded, path, now})
		case was.Stat.Mzxid != now.Stat.Mzxid:
			k.tell(CacheEvent{CacheChanged, path, now})
		}
	}
}

func (k *Cache) setFresh(fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark(fresh)
}

// mark records whether the cache is complete. The caller holds k.mu.
func (k *Cache) mark(fresh bool) {
	if k.fresh == fresh {
		return
	}
	k.fresh = fresh
	t := CacheStale
	if fresh {
		t = CacheFresh
	}
	k.tell(CacheEvent{Type: t})
	close(k.changed)
	k.changed = make(chan struct{})
}

// end ends the cache. Readers get the remaining events, then err.
func (k *Cache) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	close(k.changed)
	k.changed = make(chan struct{})
}
