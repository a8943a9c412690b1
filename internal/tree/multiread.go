package tree

import "github.com/zooid-project/zooid/jute"

// A multiRead may have 50,000 operations. All show one state, so the tree is locked for all of them. Each is decoded
// when its turn comes, since the decoded form of all takes six times the memory of the request.

// A multiReads steps through the operations of a multiRead.
type multiReads struct {
	d    jute.Decoder
	ops  [PrefetchMax]jute.Op
	path [PrefetchMax]string
	slot [PrefetchMax]uint32    // of the znodes
	code [PrefetchMax]jute.Code // why a znode can't be read
	told verdicts
}

// check reports whether body is the record of a multiRead: jute.DecodeMulti accepts it, and all operations are reads.
func (m *multiReads) check(body []byte) bool {
	m.d.Reset(body)
	for {
		switch _, _, end, ok := m.one(); {
		case !ok:
			return false
		case end:
			m.d.Reset(body)
			return true
		}
	}
}

// one decodes the next operation, or the end.
func (m *multiReads) one() (op jute.Op, path string, end, ok bool) {
	op, end = jute.Op(m.d.Int()), m.d.Bool()
	if m.d.Int(); end || m.d.Err() != nil {
		return op, "", end, m.d.Err() == nil
	}
	if op != jute.OpGetData && op != jute.OpGetChildren {
		return op, "", false, false
	}
	path = m.d.String()
	m.d.Bool()
	return op, path, false, m.d.Err() == nil
}

// next decodes up to PrefetchMax operations of a record that check has accepted, and finds their znodes for the bearer
// of ids. It returns how many there are, 0 at the end.
func (m *multiReads) next(t *Tree, ids []jute.ID) (n int) {
	for ; n < len(m.ops); n++ {
		op, path, end, _ := m.one()
		if end {
			m.d.Reset(endOfMulti) // so that the next call finds the end again
			break
		}
		m.ops[n], m.path[n] = op, path
	}
	if n > 1 && t.totals.nodes >= PrefetchNodesMin {
		t.Prefetch(m.path[:n])
	}
	for i, path := range m.path[:n] {
		m.slot[i], m.code[i] = t.readableOf(path, ids, &m.told)
	}
	return n
}

var endOfMulti = jute.AppendMultiEnd(nil)

// AppendMultiRead answers multiRead, given the body of its request: the results of its operations, each with its own
// code. The code is jute.ErrMarshallingError for a malformed body, TooLong for results of more than bytesMax bytes, and
// NoRoom for results that dst has no room for: dst needs the capacity that Room returns, or more if a list turns out to
// be longer.
func (t *Tree) AppendMultiRead(dst []byte, body []byte, ids []jute.ID, bytesMax int) ([]byte, jute.Code) {
	var ops multiReads
	if !ops.check(body) {
		return dst, jute.ErrMarshallingError
	}
	begin, end := len(dst), len(dst)+bytesMax
	room := max(cap(dst), begin+roomMin)
	for n := ops.next(t, ids); n > 0; n = ops.next(t, ids) {
		for i := range n {
			slot, code := ops.slot[i], ops.code[i]
			size := 4 // of an error, and of an empty list
			if code == jute.OK && ops.ops[i] == jute.OpGetData {
				size = dataRoom(t.at(slot))
			}
			if len(dst)+size+2*multiHeaderSize > room {
				if t.multiReadSize(body, ids, bytesMax) > bytesMax {
					return dst, TooLong
				}
				return dst, NoRoom
			}
			switch {
			case code != jute.OK:
				e := jute.MultiResult{Op: jute.OpError, Err: code}
				dst = e.Append(dst)
			case ops.ops[i] == jute.OpGetData:
				n := t.at(slot)
				if len(dst)+n.size() > end {
					return dst, TooLong
				}
				g := jute.MultiResult{Op: jute.OpGetData, Stat: t.stat(n), Data: t.data(n)}
				dst = g.Append(dst)
			default: // append a result with an empty list, and write the real list over the empty one
				g := jute.MultiResult{Op: jute.OpGetChildren}
				dst = g.Append(dst)
				list := t.appendChildrenTo(dst[:len(dst)-4], slot, min(end, room))
				switch {
				case list != nil:
					dst = list
				case end <= room:
					return dst, TooLong
				default:
					return dst, NoRoom
				}
			}
			if len(dst) > end {
				return dst, TooLong
			}
		}
	}
	return jute.AppendMultiEnd(dst), jute.OK
}

// multiReadSize returns the total size of the results of a multiRead, 0 for a malformed body. It stops as soon as the
// sum exceeds bytesMax. For long lists that aren't cached it counts only the minimum.
func (t *Tree) multiReadSize(body []byte, ids []jute.ID, bytesMax int) (size int) {
	var ops multiReads
	if !ops.check(body) {
		return 0
	}
	for n := ops.next(t, ids); n > 0; n = ops.next(t, ids) {
		for i := range n {
			switch slot, code := ops.slot[i], ops.code[i]; {
			case code != jute.OK:
				size += 4 // the code once more
			case ops.ops[i] == jute.OpGetData:
				size += dataRoom(t.at(slot))
			default:
				least := 4 // their number, and for each name its length and at least one byte
				if k := t.extraOf(t.at(slot)); k.children > 0 {
					least = max(len(t.lists.get(slot)), least+5*int(k.children))
				}
				size += least
			}
			if size += multiHeaderSize; size > bytesMax {
				return size
			}
		}
	}
	return size
}

// multiHeaderSize is the size of the header of a result, and of the end of all results.
const multiHeaderSize = 9

// readableOf is readable for one of many znodes that the client reads.
func (t *Tree) readableOf(path string, ids []jute.ID, told *verdicts) (uint32, jute.Code) {
	slot := t.find(path)
	if slot == 0 {
		return 0, jute.ErrNoNode
	}
	e := &t.acls.entries[t.at(slot).acl]
	if e.world&jute.PermRead == 0 && !t.settings.SkipACL && !told.of(&t.access, t.at(slot).acl, jute.PermRead, ids) ||
		!t.access.grants(path, &e.rights, jute.PermRead, ids) {
		return 0, jute.ErrNoAuth
	}
	return slot, jute.OK
}
