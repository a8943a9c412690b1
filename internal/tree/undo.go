package tree

import (
	"strings"

	"github.com/zooid-project/zooid/internal/policy"
)

// The undoLog makes a multi all-or-nothing: its operations change the tree as they go, and each change records how to
// undo it. Memory that an operation frees is only freed when the multi succeeds.
//
// A multi may have 60,000 operations, so steps are small and few. Insertions and removals save nothing, because the
// znode itself says where it is. Other changes save a znode before the first of them: restoring that state undoes the
// later ones too. The values that some steps save are on separate stacks: undoing the steps in reverse takes the values
// from the ends of these stacks.
type undoLog struct {
	open   bool
	steps  stack[undoStep]
	totals totals
	policy *policy.Policy

	nodes stack[savedNode]
	paths []string

	saved, replaced seen // znodes that are saved, and those whose data are kept
}

type undoKind uint8

const (
	undoNode   undoKind = iota // the znode in slot was the last one of nodes
	undoInsert                 // slot was handed out and added to the table
	undoRemove                 // slot was removed from the table
	undoData                   // the data were in block, with the length dataLen
	undoQuota                  // the last one of paths was registered, or not
)

type undoStep struct {
	kind    undoKind
	on      bool
	slot    uint32
	block   uint32
	dataLen int32
}

type savedNode struct {
	node  node
	extra nodeExtra // if the node had one
}

// note adds a step.
func (u *undoLog) note(s undoStep) { *u.steps.push() = s }

// saveNode records the znode in slot, unless it is known to be recorded.
func (z *znodes) saveNode(slot uint32, n *node) {
	u := &z.undo
	if u.saved.again(slot) {
		return
	}
	u.note(undoStep{kind: undoNode, slot: slot})
	saved := u.nodes.push()
	if saved.node = *n; n.extra != 0 {
		saved.extra = *z.extras.at(n.extra)
	}
}

// inserted records that the znode in slot is new. What it was before later changes doesn't matter.
func (u *undoLog) inserted(slot uint32) {
	u.note(undoStep{kind: undoInsert, slot: slot})
	u.saved.again(slot)
	u.replaced.again(slot)
}

// keepData reports whether the block of a znode's data must be kept, and then records it. It needn't be kept if older
// data of the znode are known to be recorded.
func (u *undoLog) keepData(slot uint32, n *node) bool {
	if u.replaced.again(slot) {
		return false
	}
	u.note(undoStep{kind: undoData, slot: slot, block: n.block, dataLen: n.dataLen})
	return true
}

// seen remembers some of the slots that it was asked about. Forgetting one only costs the memory to save it again.
type seen [32]uint32

// again reports whether it remembers that it was asked about slot.
func (s *seen) again(slot uint32) bool {
	at := &s[slot%uint32(len(s))]
	if *at == slot {
		return true
	}
	*at = slot
	return false
}

// A stack is a list that grows without moving its elements.
type stack[T any] struct {
	full [][]T
	top  []T
}

// stackChunk is the number of elements that a stack allocates together; those of one chunk are kept.
const stackChunk = 256

// push adds an element for the caller to set.
func (s *stack[T]) push() *T {
	n := len(s.top)
	if n == cap(s.top) {
		s.addChunk()
		n = 0
	}
	s.top = s.top[:n+1]
	return &s.top[n]
}

// addChunk replaces top, which is full.
func (s *stack[T]) addChunk() {
	if len(s.top) > 0 {
		s.full = append(s.full, s.top)
	}
	s.top = make([]T, 0, stackChunk)
}

// last returns the last element, nil if there is none. It is valid until the next push.
func (s *stack[T]) last() *T {
	if len(s.top) == 0 {
		return nil
	}
	return &s.top[len(s.top)-1]
}

// pop removes the last element and returns it, nil if there is none. It is valid until the next push.
func (s *stack[T]) pop() *T {
	v := s.last()
	if v == nil {
		return nil
	}
	if s.top = s.top[:len(s.top)-1]; len(s.top) == 0 && len(s.full) > 0 {
		s.top, s.full = s.full[len(s.full)-1], s.full[:len(s.full)-1]
	}
	return v
}

// all calls visit for each element, the first one first.
func (s *stack[T]) all(visit func(*T)) {
	for _, chunk := range append(s.full, s.top) {
		for i := range chunk {
			visit(&chunk[i])
		}
	}
}

// reset removes all elements.
func (s *stack[T]) reset() {
	if clear(s.top); len(s.full) > 0 {
		*s = stack[T]{}
	}
	s.top = s.top[:0]
}

// begin starts recording changes.
func (t *Tree) begin() {
	if t.undo.open {
		panic("tree: invariant broken: a multi inside of a multi")
	}
	t.undo.open, t.undo.totals, t.undo.policy, t.near = true, t.totals, t.access.policy, nearRoot
}

// commit makes all changes since begin final.
func (t *Tree) commit() {
	t.undo.steps.all(func(s *undoStep) {
		switch s.kind {
		case undoRemove:
			t.freeNode(s.slot)
		case undoData:
			n := node{nameKind: t.at(s.slot).nameKind, dataLen: s.dataLen}
			t.payloads.put(s.block, n.payload())
		}
	})
	t.endUndo()
}

// rollback undoes all changes since begin.
func (t *Tree) rollback() {
	u := &t.undo
	for s := u.steps.pop(); s != nil; s = u.steps.pop() {
		switch s.kind {
		case undoNode:
			n, was := t.at(s.slot), u.nodes.pop()
			if was.node.extra != 0 {
				k := t.extras.at(was.node.extra)
				// Undoing each insert, remove and change of data restores these fields.
				was.extra.below, was.extra.sizes = k.below, k.sizes
				*k = was.extra
			} else if n.extra != 0 {
				t.extras.put(n.extra)
			}
			was.node.block, was.node.dataLen = n.block, n.dataLen // likewise
			*n = was.node                                         // its cached list was dropped when it changed
		case undoInsert:
			n := t.at(s.slot)
			t.unlink(s.slot)
			pathLen := t.countBelow(n.parent, -1, -n.size()) + 1 + n.nameLen()
			if n.kind() == ephemeral {
				t.sessions.unlink(s.slot, pathLen).changes--
			}
			t.unindex(s.slot)
			t.freeNode(s.slot)
		case undoRemove:
			n := t.at(s.slot)
			t.link(s.slot)
			pathLen := t.countBelow(n.parent, 1, n.size()) + 1 + n.nameLen()
			if n.kind() == ephemeral {
				t.sessions.link(s.slot, pathLen).changes--
			}
			t.index(s.slot)
		case undoData:
			n := t.at(s.slot)
			t.payloads.put(n.block, n.payload())
			t.countBelow(n.parent, 0, -n.size())
			n.block, n.dataLen = s.block, s.dataLen
			t.countBelow(n.parent, 0, n.size())
		case undoQuota:
			path := u.paths[len(u.paths)-1]
			u.paths = u.paths[:len(u.paths)-1]
			delete(t.quotas.paths, path)
			if s.on {
				t.quotas.paths[strings.Clone(path)] = struct{}{} // it shares the request's memory
			}
		}
	}
	t.totals, t.access.policy, t.quotas.above.known = t.undo.totals, t.undo.policy, false
	t.endUndo()
}

func (t *Tree) endUndo() {
	u := &t.undo
	u.steps.reset()
	u.nodes.reset()
	u.saved, u.replaced = seen{}, seen{}
	u.open, u.policy, u.paths, t.near = false, nil, nil, nearby{}
}
