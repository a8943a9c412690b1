package zk

import (
	"slices"

	zooid "github.com/zooid-project/zooid/zk"
)

// A watch is one that has not fired, with the channel its caller has.
type watch struct {
	of *zooid.Watch
	ch chan Event // has room for the one event
}

// watching hands a watch of client to the Conn, and returns the channel.
func (c *Conn) watching(client *zooid.Client, w *zooid.Watch) <-chan Event {
	k := &watch{w, make(chan Event, 1)}
	path := w.Path()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != client || c.ended != nil {
		why := c.ended
		if why == nil {
			why = ErrSessionExpired // and there is another one already
		}
		k.fire(notWatching(path, why))
		return k.ch
	}
	c.watches[path] = append(c.watches[path], k)
	c.fire(path) // its notification may have come before
	return k.ch
}

func (k *watch) fire(e Event) {
	k.ch <- e
	close(k.ch)
}

func notWatching(path string, why error) Event {
	return Event{Type: EventNotWatching, State: StateDisconnected, Path: path, Err: why}
}

// notified takes each notification, before anything later is read.
func (c *Conn) notified(e zooid.Event) {
	c.tellStates()
	c.telling.Lock()
	c.tell(Event{Type: EventType(e.Type), State: StateSyncConnected, Path: e.Path})
	c.telling.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fire(e.Path)
}

// fire gives those watches of path their event that have one. The caller holds
// c.mu.
func (c *Conn) fire(path string) {
	left := slices.DeleteFunc(c.watches[path], func(k *watch) bool {
		e, ok := k.of.Try()
		if ok {
			k.fire(Event{Type: EventType(e.Type), State: StateSyncConnected, Path: e.Path})
		}
		return ok
	})
	if len(left) == 0 {
		delete(c.watches, path)
	} else {
		c.watches[path] = left
	}
}

// endWatches ends all watches of the session, which is over. The caller holds
// c.telling.
func (c *Conn) endWatches(why error) {
	c.mu.Lock()
	all := c.watches
	c.watches, c.ended = map[string][]*watch{}, why
	c.mu.Unlock()
	for path, list := range all {
		c.tell(notWatching(path, why))
		for _, k := range list {
			k.fire(notWatching(path, why))
		}
	}
}
