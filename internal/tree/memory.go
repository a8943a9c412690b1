package tree

import "unsafe"

// Memory is the approximate size of the parts of a tree, in bytes. It doesn't include freed memory that can be reused.
type Memory struct {
	Nodes      int64 // znodes, their names and data, the table that finds them, cached lists of children, and Aside
	Sessions   int64
	Identities int64 // ACLs, and the caches of clients' identities and ACLs
	Full       bool  // few addresses are left, so the tree must not grow
}

const (
	// tableBytesPerNode is the table's memory per znode, when it is three quarters full.
	tableBytesPerNode = 16
	// sessionIndexBytes is the memory of Go's map per session.
	sessionIndexBytes = 40
)

// Memory returns the approximate size of the tree, in constant time.
func (t *Tree) Memory() Memory {
	t.lists.mu.Lock()
	lists := t.lists.size
	t.lists.mu.Unlock()
	return Memory{
		Full: t.payloads.full(),
		Nodes: int64(t.nodes.live)*int64(unsafe.Sizeof(node{})+tableBytesPerNode) +
			int64(t.extras.live)*int64(unsafe.Sizeof(nodeExtra{})) +
			t.payloads.size() + int64(lists) + t.Aside(),
		Sessions:   int64(t.sessions.slots.live) * int64(unsafe.Sizeof(session{})+sessionIndexBytes),
		Identities: int64(2*t.identities.bytes) + int64(2*t.acls.kept) + int64(t.acls.bytes),
	}
}

// Aside returns the bytes of what changed under open snapshots before they had written it.
func (z *znodes) Aside() (n int64) {
	for _, img := range z.images {
		n += img.kept.Load()
	}
	return n
}

// size returns the bytes of pages with live blocks and of large blocks.
func (a *arena) size() int64 { return int64(len(a.pages)-len(a.pool))*arenaPage + int64(a.large.bytes) }
