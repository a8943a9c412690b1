package tree

import "unsafe"

// Memory is the approximate size of the parts of a tree, in bytes. Memory that was freed and can be
// used again doesn't count.
type Memory struct {
	Nodes      int64 // znodes, their names and data, the table that finds them, and cached lists of children
	Sessions   int64
	Identities int64 // ACLs, and what is cached of clients' identities and ACLs
	Full       bool  // the tree has few addresses left: it must not grow
}

const (
	// tableBytesPerNode is what the table takes for a znode, three quarters full.
	tableBytesPerNode = 16
	// sessionIndexBytes is what Go's map takes for a session.
	sessionIndexBytes = 40
)

// Memory returns the approximate size of the tree. It takes a few steps, however large the tree is.
func (t *Tree) Memory() Memory {
	t.lists.mu.Lock()
	lists := t.lists.size
	t.lists.mu.Unlock()
	return Memory{
		Full: t.payloads.full(),
		Nodes: int64(t.nodes.live)*int64(unsafe.Sizeof(node{})+tableBytesPerNode) +
			int64(t.extras.live)*int64(unsafe.Sizeof(nodeExtra{})) +
			t.payloads.size() + int64(lists),
		Sessions:   int64(t.sessions.slots.live) * int64(unsafe.Sizeof(session{})+sessionIndexBytes),
		Identities: int64(2*t.identities.bytes) + int64(2*t.acls.kept) + int64(t.acls.bytes),
	}
}

// size returns the bytes that pages with live blocks and large blocks take.
func (a *arena) size() int64 { return int64(len(a.pages)-len(a.pool))*arenaPage + int64(a.large.bytes) }
