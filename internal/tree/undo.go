package tree

import "github.com/zooid-project/zooid/internal/policy"

// The undoLog makes a multi all-or-nothing: its operations change the tree as they go, and each change records how to
// undo it. Memory that an operation frees is only freed when the multi succeeds.
type undoLog struct {
	open   bool
	log    []undoStep
	totals totals
	policy *policy.Policy
}

type undoKind uint8

const (
	undoNode    undoKind = iota // the znode in slot was as saved
	undoSession                 // the session in slot was as saved
	undoInsert                  // slot was handed out and added to the table
	undoRemove                  // slot was removed from the table
	undoData                    // the data was in block, of size bytes
	undoQuota                   // path was registered, or not
)

type undoStep struct {
	kind    undoKind
	on      bool
	slot    uint32
	block   uint32
	size    int
	path    string
	node    node
	extra   nodeExtra // if the node had one
	session *session
}

// undoLogKeep is the longest log whose memory is kept for the next multi.
const undoLogKeep = 1024

// justSaved reports whether the last step already holds the znode in slot.
func (u *undoLog) justSaved(slot uint32) bool {
	last := len(u.log) - 1
	return last >= 0 && u.log[last].kind == undoNode && u.log[last].slot == slot
}

// begin starts recording changes.
func (t *Tree) begin() {
	if t.undo.open {
		panic("tree: invariant broken: a multi inside of a multi")
	}
	t.undo.open, t.undo.totals, t.undo.policy = true, t.totals, t.policy
}

// commit makes everything since begin final.
func (t *Tree) commit() {
	for i := range t.undo.log {
		switch s := &t.undo.log[i]; s.kind {
		case undoRemove:
			t.freeNode(s.slot)
		case undoData:
			t.payloads.put(s.block, s.size)
		}
	}
	t.endUndo()
}

// rollback undoes everything since begin.
func (t *Tree) rollback() {
	for i := len(t.undo.log) - 1; i >= 0; i-- {
		s := &t.undo.log[i]
		switch s.kind {
		case undoNode:
			n := t.at(s.slot)
			if s.node.extra != 0 {
				k := t.extras.at(s.node.extra)
				// Undoing each insert, remove and change of data restores these fields.
				s.extra.below, s.extra.sizes = k.below, k.sizes
				*k = s.extra
			} else if n.extra != 0 {
				t.extras.put(n.extra)
			}
			*n = s.node // its cached list was dropped when it changed
		case undoSession:
			*t.sessions.slots.at(s.slot) = *s.session
		case undoInsert:
			t.countBelow(t.at(s.slot).parent, -1, -t.at(s.slot).size())
			t.unindex(s.slot)
			t.freeNode(s.slot)
		case undoRemove:
			t.index(s.slot)
			t.countBelow(t.at(s.slot).parent, 1, t.at(s.slot).size())
		case undoData:
			n := t.at(s.slot)
			t.countBelow(n.parent, 0, s.size-n.payload())
			t.payloads.put(n.block, n.payload())
		case undoQuota:
			delete(t.quotas, s.path)
			if s.on {
				t.quotas[s.path] = struct{}{}
			}
		}
	}
	t.totals, t.policy, t.quotaAbove.known = t.undo.totals, t.undo.policy, false
	t.endUndo()
}

func (t *Tree) endUndo() {
	clear(t.undo.log)
	t.undo.log = t.undo.log[:0]
	if cap(t.undo.log) > undoLogKeep {
		t.undo.log = nil
	}
	t.undo.open, t.undo.policy = false, nil
}
