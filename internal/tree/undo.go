package tree

import "github.com/zooid-project/zooid/internal/policy"

// The undoLog makes a multi all-or-nothing: its operations change the tree as they go, and each change records how to
// undo it. Memory that an operation frees is only freed when the multi succeeds.
//
// A multi may have 40,000 operations of several steps each, so steps are small. The values that some of them save are
// on separate stacks: undoing the steps in reverse takes the values from the ends of these stacks.
type undoLog struct {
	open   bool
	steps  stack[undoStep]
	totals totals
	policy *policy.Policy

	nodes    stack[savedNode]
	sessions stack[session]
	paths    []string
}

type undoKind uint8

const (
	undoNode    undoKind = iota // the znode in slot was the last one of nodes
	undoSession                 // the session in slot was the last one of sessions
	undoInsert                  // slot was handed out and added to the table
	undoRemove                  // slot was removed from the table
	undoData                    // the data was in block, of size bytes
	undoQuota                   // the last one of paths was registered, or not
)

type undoStep struct {
	kind  undoKind
	on    bool
	slot  uint32
	block uint32
	size  int
}

type savedNode struct {
	node  node
	extra nodeExtra // if the node had one
}

// note adds a step.
func (u *undoLog) note(s undoStep) { *u.steps.push() = s }

// saveNode records the znode in slot, unless the last step already has.
func (z *znodes) saveNode(slot uint32, n *node) {
	u := &z.undo
	if last := u.steps.last(); last != nil && last.kind == undoNode && last.slot == slot {
		return
	}
	u.note(undoStep{kind: undoNode, slot: slot})
	saved := u.nodes.push()
	if saved.node = *n; n.extra != 0 {
		saved.extra = *z.extras.at(n.extra)
	}
}

// saveSession records the session in slot.
func (u *undoLog) saveSession(slot uint32, s *session) {
	u.note(undoStep{kind: undoSession, slot: slot})
	*u.sessions.push() = *s
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
			t.payloads.put(s.block, s.size)
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
			*n = was.node // its cached list was dropped when it changed
		case undoSession:
			*t.sessions.slots.at(s.slot) = *u.sessions.pop()
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
			path := u.paths[len(u.paths)-1]
			u.paths = u.paths[:len(u.paths)-1]
			delete(t.quotas.paths, path)
			if s.on {
				t.quotas.paths[path] = struct{}{}
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
	u.sessions.reset()
	u.open, u.policy, u.paths, t.near = false, nil, nil, nearby{}
}
