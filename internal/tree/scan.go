package tree

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// Limits of reads.
const (
	// ReplyBytesMax bounds the body of one reply. It is enough for the names of more than a million children. Java's
	// clients accept 1 MiB unless configured otherwise.
	ReplyBytesMax = 64 << 20
	// scanStep is how many znodes a Scan visits in one step, and the length of the longest list that is read at once.
	scanStep = 4096
	// largeList is the number of bytes of names from which on a list is large. It is less than roomMin, which must also
	// have room for the rest of the reply.
	largeList = roomMin / 2
	// scanStepBytes is how many bytes of paths one step appends.
	scanStepBytes = 256 << 10
	// scanRestartsMax is how often a Scan starts again because its list has changed. After that, scanStep doesn't end a
	// step.
	scanRestartsMax = 8
	// roomMin is how many bytes a read may allocate for its reply. For a larger reply, dst must already have the capacity.
	roomMin = 64 << 10
)

// LongRead is the code of a read that needs a Scan. Clients never receive it.
const LongRead jute.Code = 1

// NoRoom is the code of a read whose reply is large and exceeds the capacity of dst; Room returns the size that it
// needs. The caller allocates it without locking the tree, since the garbage collector may delay an allocation. Clients
// never receive the code.
const NoRoom jute.Code = 3

// TooLong is the code of a read whose reply would exceed its limit. Clients receive jute.ErrMarshallingError.
const TooLong jute.Code = 2

// A Scan is a read of a list that is too long to be read at once: each Step continues where the previous one stopped,
// and the tree may change in between. The result is still the list as of the last step: if the list changes after the
// first step, the scan starts again.
type Scan struct {
	// What to read, set by the caller.
	Op      jute.Op   // getChildren, getChildren2 or getEphemerals
	Path    string    // for getEphemerals, the prefix
	IDs     []jute.ID // identities of the reader
	Session int64     // for getEphemerals

	// Body is the caller's initial content, followed by the body of the reply. It doesn't become longer than Room, unless
	// Room is 0: a Step without room for the next name returns false and NoRoom, and the scan can continue with more room.
	Body []byte
	Room int

	begun    bool
	base     int    // where the reply's body begins
	next     uint32 // the znode to continue with
	count    int32  // ephemerals in the body so far
	restarts int
	list     scanned
}

// A scanned identifies a list in one of its states. It includes the tree, since a tree restored from a snapshot may
// replace this one and have the same list in other slots.
type scanned struct {
	tree     *Tree
	slot     uint32
	id       int64 // czxid or session id
	changes  int64 // grows with each change of the list
	restored int   // grows when all znodes are replaced, which may restore a former state of a list
}

// Step continues a scan. It reports whether the scan is done; if so and the code is jute.OK, Body is complete. The code
// is NoRoom if Body has no room for the next part.
func (t *Tree) Step(s *Scan) (done bool, code jute.Code) {
	if !s.begun {
		s.base = len(s.Body)
	}
	if s.Op == jute.OpGetEphemerals {
		return t.stepEphemerals(s)
	}
	return t.stepChildren(s)
}

// resume reports whether the scan continues with the list. If not, the scan starts again.
func (s *Scan) resume(list scanned) bool {
	if s.begun && s.list == list {
		return true
	}
	if s.begun {
		s.restarts++
	}
	s.begun, s.list, s.count, s.Body = true, list, 0, s.Body[:s.base]
	return false
}

// over reports whether a step ends after it has visited so many znodes.
func (s *Scan) over(visited int) bool { return visited >= scanStep && s.restarts < scanRestartsMax }

// full reports whether Body has no room for n more bytes.
func (s *Scan) full(n int) bool { return s.Room > 0 && len(s.Body)+n > s.Room }

func (s *Scan) tooLong() bool { return len(s.Body)-s.base > ReplyBytesMax }

func (t *Tree) stepChildren(s *Scan) (done bool, code jute.Code) {
	slot, code := t.readable(s.Path, jute.PermRead, s.IDs)
	if code != jute.OK {
		return true, code
	}
	n := t.at(slot)
	k := t.extraOf(n)
	if !s.resume(scanned{t, slot, n.czxid, k.pzxid, t.restored}) {
		s.Body = jute.AppendInt(s.Body, int32(k.children))
		if s.next = k.first; k.children == 0 {
			s.next = 0 // an ephemeral znode uses the links otherwise
		}
	}
	for visited := 0; s.next != 0; visited++ {
		if s.over(visited) {
			return false, jute.OK
		}
		child := t.at(s.next)
		name := t.name(child)
		if s.full(4 + len(name) + jute.StatSize) {
			return false, NoRoom
		}
		s.Body = jute.AppendString(s.Body, name)
		s.next = child.next
		if s.tooLong() {
			return true, TooLong
		}
	}
	if k.children >= listChildrenMin {
		t.lists.put(slot, s.Body[s.base:])
	}
	if s.Op == jute.OpGetChildren2 {
		s.Body = t.appendStat(s.Body, n)
	}
	return true, jute.OK
}

// stepEphemerals is AppendEphemerals in steps.
func (t *Tree) stepEphemerals(s *Scan) (done bool, code jute.Code) {
	slot, ok := t.sessions.index[s.Session]
	if !ok {
		s.Body = jute.AppendInt(s.Body[:s.base], 0)
		return true, jute.OK
	}
	owner := t.sessions.slots.at(slot)
	if !s.resume(scanned{t, slot, owner.id, int64(owner.changes), t.restored}) {
		s.Body, s.next = jute.AppendInt(s.Body, 0), owner.first
	}
	prefix := ephemeralPrefix(s.Path)
	for visited, copied := 0, 0; s.next != 0; visited++ {
		if s.over(visited) || copied > scanStepBytes {
			return false, jute.OK
		}
		at, slot := len(s.Body), s.next
		s.Body = t.appendPath(jute.AppendInt(s.Body, 0), slot)
		s.next = t.extraOf(t.at(s.next)).last
		path := text(s.Body[at+4:])
		copied += len(path)
		if !strings.HasPrefix(path, prefix) {
			s.Body = s.Body[:at]
			continue
		}
		if s.full(0) {
			s.Body, s.next = s.Body[:at], slot
			return false, NoRoom
		}
		if s.count++; s.tooLong() {
			return true, TooLong
		}
		jute.AppendInt(s.Body[:at], int32(len(path)))
	}
	jute.AppendInt(s.Body[:s.base], s.count)
	return true, jute.OK
}

// ephemeralPrefix returns the effective prefix of a getEphemerals: a blank one and "/" mean all.
func ephemeralPrefix(prefix string) string {
	if trimmed := strings.TrimSpace(prefix); trimmed == "" || trimmed == "/" {
		return ""
	}
	return prefix
}

// hasRoom reports whether n bytes may be appended to dst while the caller has locked the tree.
func hasRoom(dst []byte, n int) bool { return n <= roomMin || n <= cap(dst)-len(dst) }

// Room returns the maximum size of the body of a reply, given the body of its request, or 0 if that can't be determined
// without walking a list. The reply to a multiRead takes at most bytesMax.
func (t *Tree) Room(op jute.Op, body []byte, ids []jute.ID, bytesMax int) int {
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpGetData:
		if slot := t.find(d.String()); slot != 0 {
			return dataRoom(t.at(slot))
		}
	case jute.OpGetACL:
		if slot := t.find(d.String()); slot != 0 {
			return len(t.acls.entries[t.at(slot).acl].encoded) + jute.StatSize
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		if slot := t.find(d.String()); slot != 0 {
			return len(t.lists.get(slot)) + jute.StatSize
		}
	case jute.OpMultiRead:
		if size := t.multiReadSize(body, ids, bytesMax); size > 0 {
			return size + multiHeaderSize
		}
	}
	return 0
}

// LargeList reports whether the reply to a read of the children of path may need room in advance. It visits the
// children only if the tree has ever had names that are long enough.
func (z *znodes) LargeList(path string) bool {
	slot := z.find(path)
	if slot == 0 {
		return false
	}
	k := z.extraOf(z.at(slot))
	if int(k.children)*(4+z.longestName) <= largeList || k.children == 0 {
		return false
	}
	size := 0
	for s := k.first; s != 0 && size <= largeList; s = z.at(s).next {
		size += 4 + z.at(s).nameLen()
	}
	return size > largeList
}

// dataRoom returns the size of the reply to getData.
func dataRoom(n *node) int { return n.size() + 4 + jute.StatSize }

// LargeValues reports whether the tree has ever had data whose reply needs room in advance.
func (z *znodes) LargeValues() bool { return z.payloads.large.largest > roomMin }

// ReadWork returns the cost of a read. For a read of children, or of the session's ephemerals, it is the number of
// znodes visited; for any other read it is the maximum number of bytes of data returned.
func (t *Tree) ReadWork(op jute.Op, path string, session int64) int {
	switch op {
	case jute.OpGetEphemerals:
		if slot, ok := t.sessions.index[session]; ok {
			return int(t.sessions.slots.at(slot).ephemerals)
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		if slot := t.find(path); slot != 0 {
			return int(t.extraOf(t.at(slot)).children)
		}
	default:
		if slot := t.find(path); slot != 0 {
			return t.at(slot).size()
		}
	}
	return 0
}
