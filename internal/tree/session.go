package tree

import (
	"crypto/subtle"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A session identifies a client across its connections. Its ephemeral znodes are linked in the
// order of their creation.
type session struct {
	_           uint32 // links free slots (slab.link); must be first
	first, last uint32 // slots of its ephemeral znodes
	ephemerals  uint32
	changes     uint32 // grows with each change of the list, for Scan
	id          int64  // 0 if the slot is free
	cnx         int64  // the connection that owns the session
	next        int64  // the sequence that the owner's next request must have
	base        uint64
	timeout     int32 // milliseconds
	passwd      [jute.PasswdSize]byte
	scope       Scope
}

type sessionTable struct {
	slots     slab[session]
	index     map[int64]uint32
	entrances [256]entrance // by the high byte of ids
}

func (s *sessionTable) init(alloc func(int) []byte) {
	s.slots.alloc = alloc
	s.index = map[int64]uint32{}
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

// Session returns the session with the given id.
func (t *Tree) Session(id int64) (Session, bool) {
	slot, ok := t.sessions.index[id]
	if !ok {
		return Session{}, false
	}
	return t.sessions.slots.at(slot).public(), true
}

func (s *session) public() Session { return Session{s.id, s.cnx, s.next, s.timeout, s.passwd, s.scope} }

// Sessions calls visit for each session in the order of ids, until visit returns false.
func (t *Tree) Sessions(visit func(Session) bool) {
	ids := make([]int64, 0, len(t.sessions.index))
	for id := range t.sessions.index { // any order: sorted below
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if !visit(t.sessions.slots.at(t.sessions.index[id]).public()) {
			return
		}
	}
}

// EphemeralPaths returns the paths of a session's znodes in the order of their
// creation.
func (t *Tree) EphemeralPaths(id int64) []string {
	slot, ok := t.sessions.index[id]
	if !ok {
		return nil
	}
	s := t.sessions.slots.at(slot)
	paths := make([]string, 0, s.ephemerals)
	for z := s.first; z != 0; z = t.extraOf(t.at(z)).last {
		paths = append(paths, string(t.appendPath(nil, z)))
	}
	return paths
}

// EphemeralsOf returns how many ephemeral znodes a session has.
func (t *Tree) EphemeralsOf(id int64) int {
	slot, ok := t.sessions.index[id]
	if !ok {
		return 0
	}
	return int(t.sessions.slots.at(slot).ephemerals)
}

// admit enforces D6: a client's request is applied only if it arrived on the connection that owns the session and is
// the next request of that connection.
func (t *Tree) admit(q *Request) Outcome {
	slot, ok := t.sessions.index[q.Session]
	if !ok {
		return SessionGone
	}
	s := t.sessions.slots.at(slot)
	switch {
	case q.Cnx != s.cnx:
		return Moved
	case q.Seq < s.next:
		return Duplicate
	case q.Seq > s.next:
		return Gap
	}
	s = t.editSession(slot)
	t.totals.digest -= t.sessionDigest(s)
	s.next++
	t.totals.digest += t.sessionDigest(s)
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
		r.Zxid, r.Err = t.nextZxid(), jute.ErrMarshallingError
		return
	}
	at, taken := t.sessions.index[q.Session]
	if taken && t.sessions.slots.at(at).cnx == q.Cnx {
		r.Outcome = Duplicate
		return
	}
	r.Zxid = t.nextZxid()
	if taken || !validSessionID(q.Session) {
		r.Err = jute.ErrSystemError
		return
	}
	t.beginSession(session{id: q.Session, cnx: q.Cnx, next: 1, timeout: timeout, passwd: [jute.PasswdSize]byte(passwd)})
	r.Timeout = timeout
}

// beginSession adds a session to the table.
func (t *Tree) beginSession(begun session) {
	slot := t.sessions.slots.get()
	for _, img := range t.images {
		img.sessions.absent(slot)
	}
	s := t.sessions.slots.at(slot)
	*s = begun
	s.base = t.sessionBase(s)
	t.sessions.index[s.id] = slot
	if s.scope != Global {
		t.entranceOf(s.id).inside++
	}
	t.totals.digest += t.sessionDigest(s)
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
	s := t.editSession(slot)
	t.totals.digest -= t.sessionDigest(s)
	s.cnx, s.next, s.timeout = q.Cnx, 1, timeout
	s.base = t.sessionBase(s)
	t.totals.digest += t.sessionDigest(s)
	r.Timeout = timeout
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
	r.Zxid = t.nextZxid()
	t.closeSession(q.Session, r)
}

// closeSession ends a session and deletes its znodes, oldest first, all with the same zxid.
func (t *Tree) closeSession(id int64, r *Result) {
	r.Closed = true
	slot := t.sessions.index[id]
	t.deleteEphemerals(slot, r)
	s := t.editSession(slot)
	t.totals.digest -= t.sessionDigest(s)
	if s.scope != Global {
		t.entranceOf(id).inside--
	}
	delete(t.sessions.index, id)
	t.sessions.slots.put(slot)
}

// own appends an ephemeral znode to its session's list.
func (t *Tree) own(slot uint32) {
	n := t.editExtra(t.at(slot))
	at, ok := t.sessions.index[n.owner]
	if !ok {
		panic("tree: invariant broken: an ephemeral znode's session doesn't exist")
	}
	s := t.editSession(at)
	n.first, n.last = s.last, 0
	if s.last != 0 {
		t.editExtra(t.edit(s.last)).last = slot
	} else {
		s.first = slot
	}
	s.last = slot
	s.ephemerals++
	s.changes++
	t.totals.ephemerals++
}

// disown removes an ephemeral znode from its session's list.
func (t *Tree) disown(slot uint32) {
	n := t.extraOf(t.at(slot))
	s := t.editSession(t.sessions.index[n.owner])
	if n.first != 0 {
		t.editExtra(t.edit(n.first)).last = n.last
	} else {
		s.first = n.last
	}
	if n.last != 0 {
		t.editExtra(t.edit(n.last)).first = n.first
	} else {
		s.last = n.first
	}
	s.ephemerals--
	s.changes++
	t.totals.ephemerals--
}
