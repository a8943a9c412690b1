package tree

import (
	"crypto/subtle"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A session identifies a client across its connections. Its ephemeral znodes are linked in the order of their creation.
type session struct {
	_           uint32 // links free slots (slab.link); must be first
	first, last uint32 // slots of its ephemeral znodes
	ephemerals  uint32
	changes     uint32 // grows with each change of the list, for Scan
	id          int64  // 0 if the slot is free
	cnx         int64  // the connection that owns the session
	next        int64  // the sequence that the owner's next request must have
	base        uint64
	pathBytes   int64 // of the paths of its ephemeral znodes
	timeout     int32 // milliseconds
	passwd      [jute.PasswdSize]byte
	scope       Scope
}

// Sessions are the sessions of a tree, and the entrances of the local ones. Each session's list has exactly the
// ephemeral znodes that name it as their owner. Each change of a session updates the digest, and first saves the old
// state for open snapshots. Sessions know nothing of zxids and of clients' rights. Exported methods only read.
type Sessions struct {
	znodes *znodes // of the same tree

	slots     slab[session]
	index     map[int64]uint32
	entrances [256]entrance // by the high byte of ids
}

// init makes room for sessions, of which there are none yet; alloc provides memory.
func (ss *Sessions) init(z *znodes, o Options, alloc func(int) []byte) {
	ss.znodes = z
	ss.slots.alloc, ss.slots.release = alloc, o.Release
	ss.index = map[int64]uint32{}
}

// A Session is the part of a session's state that the server needs.
type Session struct {
	ID      int64
	Cnx     int64 // the connection that owns the session
	Next    int64 // the sequence that its next request must have
	Timeout int32 // milliseconds
	Passwd  [jute.PasswdSize]byte
	Scope   Scope
}

// Count returns the number of sessions.
func (ss *Sessions) Count() int { return ss.slots.live }

// Get returns the session with the given id.
func (ss *Sessions) Get(id int64) (Session, bool) {
	slot, ok := ss.index[id]
	if !ok {
		return Session{}, false
	}
	return ss.slots.at(slot).public(), true
}

func (s *session) public() Session { return Session{s.id, s.cnx, s.next, s.timeout, s.passwd, s.scope} }

// IDs returns the ids of all sessions, in any order.
func (ss *Sessions) IDs() []int64 {
	return slices.AppendSeq(make([]int64, 0, len(ss.index)), maps.Keys(ss.index))
}

// All calls visit for each session in the order of ids, until visit returns false.
func (ss *Sessions) All(visit func(Session) bool) {
	ids := ss.IDs()
	slices.Sort(ids)
	for _, id := range ids {
		if !visit(ss.slots.at(ss.index[id]).public()) {
			return
		}
	}
}

// EphemeralPaths returns the paths of a session's znodes in the order of their creation, until they have limit bytes.
func (ss *Sessions) EphemeralPaths(id int64, limit int) (paths []string) {
	slot, ok := ss.index[id]
	if !ok {
		return nil
	}
	paths = []string{}
	for z := ss.slots.at(slot).first; z != 0 && limit > 0; z = ss.znodes.extraOf(ss.znodes.at(z)).last {
		paths = append(paths, string(ss.znodes.appendPath(nil, z)))
		limit -= len(paths[len(paths)-1])
	}
	return paths
}

// Ephemerals returns how many ephemeral znodes a session has, and how many bytes their paths have.
func (ss *Sessions) Ephemerals(id int64) (n, pathBytes int64) {
	if slot, ok := ss.index[id]; ok {
		s := ss.slots.at(slot)
		return int64(s.ephemerals), s.pathBytes
	}
	return 0, 0
}

// admit enforces D6: a client's request is applied only if it arrived on the connection that owns the session and is
// the next request of that connection.
func (ss *Sessions) admit(q *Request) Outcome {
	slot, ok := ss.index[q.Session]
	if !ok {
		return SessionGone
	}
	s := ss.slots.at(slot)
	switch {
	case q.Cnx != s.cnx:
		return Moved
	case q.Seq < s.next:
		return Duplicate
	case q.Seq > s.next:
		return Gap
	}
	s = ss.edit(slot)
	ss.znodes.totals.digest -= ss.digestOf(s)
	s.next++
	ss.znodes.totals.digest += ss.digestOf(s)
	return Applied
}

// validSessionID rejects ids that have another meaning as the owner of a znode in Apache's format: none, a container,
// or a TTL znode.
func validSessionID(id int64) bool {
	return id != 0 && id != -1<<63 && uint64(id)>>56 != 0xff
}

// createSession begins a session. If a server that received no reply sends the request again, that is a duplicate, as
// in attach: it must not reset the sequence.
func (t *Tree) createSession(q *Request, r *Result) {
	var d jute.Decoder
	d.Reset(q.Body)
	timeout, passwd := d.Int(), d.Buffer()
	if d.Err() != nil || len(passwd) != jute.PasswdSize || timeout < 0 {
		r.Zxid, r.Err = t.position.nextZxid(), jute.ErrMarshallingError
		return
	}
	at, taken := t.sessions.index[q.Session]
	if taken && t.sessions.slots.at(at).cnx == q.Cnx {
		r.Outcome = Duplicate
		return
	}
	r.Zxid = t.position.nextZxid()
	if taken || !validSessionID(q.Session) {
		r.Err = jute.ErrSystemError
		return
	}
	t.sessions.begin(session{id: q.Session, cnx: q.Cnx, next: 1, timeout: timeout, passwd: [jute.PasswdSize]byte(passwd)})
	r.Timeout = timeout
}

// begin adds a session to the table.
func (ss *Sessions) begin(begun session) {
	slot := ss.slots.get()
	for _, img := range ss.znodes.images {
		img.sessions.absent(slot)
	}
	s := ss.slots.at(slot)
	*s = begun
	s.base = ss.baseOf(s)
	ss.index[s.id] = slot
	if s.scope != Global {
		ss.entranceOf(s.id).inside++
	}
	ss.znodes.totals.digest += ss.digestOf(s)
}

// attach moves a session to the connection of the request.
func (t *Tree) attach(q *Request, r *Result) {
	var d jute.Decoder
	d.Reset(q.Body)
	passwd, timeout := d.Buffer(), d.Int()
	if d.Err() != nil || timeout < 0 {
		r.Err = jute.ErrMarshallingError
		return
	}
	slot, ok := t.sessions.index[q.Session]
	if !ok || subtle.ConstantTimeCompare(t.sessions.slots.at(slot).passwd[:], passwd) != 1 {
		r.Err = jute.ErrSessionExpired
		return
	}
	if t.sessions.slots.at(slot).cnx == q.Cnx {
		r.Outcome = Duplicate
		return
	}
	t.sessions.move(slot, q.Cnx, timeout)
	r.Timeout = timeout
}

// move moves a session to a connection, whose requests begin with sequence 1.
func (ss *Sessions) move(slot uint32, cnx int64, timeout int32) {
	s := ss.edit(slot)
	ss.znodes.totals.digest -= ss.digestOf(s)
	s.cnx, s.next, s.timeout = cnx, 1, timeout
	s.base = ss.baseOf(s)
	ss.znodes.totals.digest += ss.digestOf(s)
}

// expire ends a session if the leader that requested it is still the leader.
func (t *Tree) expire(q *Request, r *Result) {
	var d jute.Decoder
	d.Reset(q.Body)
	term := d.Long()
	if _, ok := t.sessions.index[q.Session]; !ok || d.Err() != nil || uint64(term) != t.position.term {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.position.nextZxid()
	t.closeSession(q.Session, r)
}

// closeSession ends a session and deletes its znodes, oldest first, all with the same zxid.
func (t *Tree) closeSession(id int64, r *Result) {
	r.Closed = true
	slot := t.sessions.index[id]
	t.deleteEphemerals(slot, r)
	t.sessions.end(slot)
}

// end removes a session, which has no znodes, from the table.
func (ss *Sessions) end(slot uint32) {
	s := ss.edit(slot)
	ss.znodes.totals.digest -= ss.digestOf(s)
	if s.scope != Global {
		ss.entranceOf(s.id).inside--
	}
	delete(ss.index, s.id)
	ss.slots.put(slot)
}

// append appends an ephemeral znode to its session's list.
func (ss *Sessions) append(slot uint32, pathLen int) {
	k := ss.znodes.editExtra(ss.znodes.at(slot))
	at, ok := ss.index[k.owner]
	if !ok {
		panic("tree: invariant broken: an ephemeral znode's session doesn't exist")
	}
	k.first, k.last = ss.slots.at(at).last, 0
	ss.link(slot, pathLen).changes++
}

// remove removes an ephemeral znode from its session's list.
func (ss *Sessions) remove(slot uint32, pathLen int) { ss.unlink(slot, pathLen).changes++ }

// link is Tree.link for the list of an ephemeral znode's session, which it returns.
func (ss *Sessions) link(slot uint32, pathLen int) *session {
	return ss.relink(slot, slot, slot, 1, pathLen)
}

// unlink is Tree.unlink for the list of an ephemeral znode's session, which it returns.
func (ss *Sessions) unlink(slot uint32, pathLen int) *session {
	k := ss.znodes.extras.at(ss.znodes.at(slot).extra)
	return ss.relink(slot, k.last, k.first, -1, -pathLen)
}

// relink is Tree.relink for the list of an ephemeral znode's session, which it returns. It adds to the numbers of the
// session and of all.
func (ss *Sessions) relink(slot, next, prev uint32, ephemerals, pathBytes int) *session {
	z := ss.znodes
	k := z.extras.at(z.at(slot).extra)
	s := ss.editLinks(ss.index[k.owner])
	if k.first != 0 {
		z.extras.at(z.editLinks(k.first).extra).last = next
	} else {
		s.first = next
	}
	if k.last != 0 {
		z.extras.at(z.editLinks(k.last).extra).first = prev
	} else {
		s.last = prev
	}
	s.ephemerals += uint32(ephemerals)
	s.pathBytes += int64(pathBytes)
	z.totals.ephemerals += ephemerals
	z.totals.ephPaths += pathBytes
	return s
}
