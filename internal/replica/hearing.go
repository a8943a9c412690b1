package replica

import (
	"slices"
)

// hearing holds the sessions attached to this server, and pending news of them for the leader. It has its own lock, so
// that reports to the leader don't wait for Replica.mu.
type hearing struct {
	// attached holds the clients by session. It is changed with Replica.mu and mu held, so either suffices to
	// read it.
	attached map[int64]*Client

	mu    partLock
	local map[int64]bool // the sessions that have not entered the table: this server ends them
	// gone holds the sessions whose connection ended before the leader heard of their last activity.
	gone []int64
}

func newHearing() hearing { return hearing{attached: map[int64]*Client{}, local: map[int64]bool{}} }

// attach records that c has the session.
func (h *hearing) attach(session int64, c *Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attached[session] = c
}

// detach records that no client here has the session.
func (h *hearing) detach(session int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.attached, session)
}

// isLocal records whether a session is local, or in the table, whose sessions the leader ends.
func (h *hearing) isLocal(session int64, local bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if local {
		h.local[session] = true
	} else {
		delete(h.local, session)
	}
}

// inTable returns the clients, of sessions in the table, for which suits is true, in any order.
func (h *hearing) inTable(suits func(*Client) bool) (list []*Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, c := range h.attached { // any order: the caller sorts
		if !h.local[id] && suits(c) {
			list = append(list, c)
		}
	}
	return list
}

// left records that a session's connection c has ended, so that the leader still hears of its last activity.
func (h *hearing) left(c *Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.lastHeard.Load() > c.reported {
		h.gone = append(h.gone, c.session)
	}
}

// forgive drops the sessions whose connections have ended: a new leader gives every session its full timeout.
func (h *hearing) forgive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = nil
}

// news returns, in ascending order, the sessions in the table that were heard since the last call.
func (h *hearing) news() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := h.gone
	h.gone = nil
	for id, c := range h.attached { // any order: sorted below
		if h.local[id] {
			continue
		}
		if at := c.lastHeard.Load(); at > c.reported {
			c.reported = at
			heard = append(heard, id)
		}
	}
	slices.Sort(heard)
	return heard
}

// heardAt returns when (ms) the client of a session connected here was last heard.
func (h *hearing) heardAt(session int64) int64 {
	if c := h.attached[session]; c != nil {
		return c.lastHeard.Load()
	}
	return 0
}
