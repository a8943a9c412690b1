package zk

import (
	"slices"

	zooid "github.com/zooid-project/zooid/zk"
)

// A watch is a watch that hasn't fired, with the channel that its caller has.
type watch struct {
	of *zooid.Watch
	ch chan Event // has room for one event
}

// watching registers w, a watch of client, with the Conn and returns the channel.
func (c *Conn) watching(client *zooid.Client, w *zooid.Watch) <-chan Event {
	k := &watch{w, make(chan Event, 1)}
	path := w.Path()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != client || c.ended != nil {
		why := c.ended
		if why == nil {
			why = ErrSessionExpired // the next session has begun
		}
		k.fire(notWatching(path, why))
		return k.ch
	}
	c.watches[path] = append(c.watches[path], k)
	c.fire(path) // the notification may have arrived already
	return k.ch
}

func (k *watch) fire(e Event) {
	k.ch <- e
	close(k.ch)
}

func notWatching(path string, why error) Event {
	return Event{Type: EventNotWatching, State: StateDisconnected, Path: path, Err: why}
}

// notified handles a notification before the client reads anything later.
func (c *Conn) notified(e zooid.Event) {
	c.tellStates()
	c.telling.Lock()
	c.tell(Event{Type: EventType(e.Type), State: StateSyncConnected, Path: e.Path})
	c.telling.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fire(e.Path)
}

// fire delivers events to the watches of path that have one. The caller holds c.mu.
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

// endWatches ends all watches of a session that has ended. The caller holds c.telling.
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
