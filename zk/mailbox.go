package zk

import (
	"context"
	"sync"
)

// A mailbox is the queue between the connection's reader, which must never wait, and a user, which may be slow. It
// holds up to max items. When one more arrives, the result of overflow replaces them all.
type mailbox[T any] struct {
	max      int
	overflow func(dropped []T) T

	mu    sync.Mutex
	items []T
	end   error         // why the mailbox was closed; nil while it is open
	ready chan struct{} // holds a token if items may be waiting or the mailbox is closed
}

func newMailbox[T any](limit int, overflow func([]T) T) mailbox[T] {
	return mailbox[T]{max: limit, overflow: overflow, ready: make(chan struct{}, 1)}
}

// put appends an item; it never blocks. After close it does nothing.
func (m *mailbox[T]) put(item T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != nil {
		return
	}
	if len(m.items) >= m.max {
		lost := m.overflow(append(m.items, item))
		m.items, item = m.items[:0], lost
	}
	m.items = append(m.items, item)
	m.signal()
}

// close closes the mailbox. Items already in it can still be read.
func (m *mailbox[T]) close(end error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end == nil {
		m.end = end
		m.signal()
	}
}

func (m *mailbox[T]) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// try returns the oldest item. If there is none, it returns the reason why the mailbox was closed, nil if open.
func (m *mailbox[T]) try() (item T, ok bool, end error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.items) == 0 {
		if m.end != nil {
			m.signal() // every other reader must see the end too
		}
		return item, false, m.end
	}
	item = m.items[0]
	if len(m.items) == 1 {
		m.items = nil
	} else {
		m.items = m.items[1:]
	}
	if len(m.items) > 0 || m.end != nil {
		m.signal()
	}
	return item, true, nil
}

// next waits for an item, for the mailbox to be closed, or for the end of ctx.
func (m *mailbox[T]) next(ctx context.Context) (T, error) {
	for {
		item, ok, end := m.try()
		if ok || end != nil {
			return item, end
		}
		select {
		case <-m.ready:
		case <-ctx.Done():
			return item, ctx.Err()
		}
	}
}
