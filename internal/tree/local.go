package tree

import "github.com/zooid-project/zooid/jute"

// A Scope says which servers know a session, and therefore what the session may own. A session that only one server
// knows isn't in the tree's session table until its first write.
type Scope uint8

// The scopes.
const (
	Global         Scope = iota // may own ephemeral znodes
	Local                       // may not
	LocalUpgrading              // becomes global with its first create of an ephemeral znode
	scopes                      // how many there are
)

// An entrance admits the local sessions of one server to the session table, each exactly once. It numbers the sessions
// that enter from a server, as D6 numbers the writes of a connection. Otherwise a late copy of an OpEnter could begin
// an ended session again, and the session's writes could then be applied again.
//
//	OpEnter accepted = its entrance is the server's newest, and its sequence is the next one
//
// A server opens a new entrance when it starts. A higher id is a newer entrance; the high byte identifies the server.
// There is one entrance per high byte, which bounds the table.
type entrance struct {
	id     int64 // 0: none yet
	next   int64 // sequence that the next entry must have
	inside int   // local sessions of that server in the table; derived from the table
}

// entranceOf returns the entrance of the server that assigned id.
func (ss *Sessions) entranceOf(id int64) *entrance { return &ss.entrances[byte(uint64(id)>>56)] }

// AppendEnter appends the body of an OpEnter request, whose Seq is the sequence in the entrance. Ids of entrances are
// unique in the cluster and increase on each server.
func AppendEnter(b []byte, entrance int64, scope Scope, passwd []byte, timeout int32) []byte {
	b = append(jute.AppendLong(b, entrance), byte(scope))
	return jute.AppendInt(jute.AppendBuffer(b, passwd), timeout)
}

// Entrance returns the newest entrance of the server that assigned id, and the sequence that its
// next OpEnter must have; 0 if the server never had one.
func (ss *Sessions) Entrance(id int64) (entrance, next int64) {
	e := ss.entranceOf(id)
	return e.id, e.next
}

// Locals returns how many local sessions of the server that assigned id are in the table.
func (ss *Sessions) Locals(id int64) int { return ss.entranceOf(id).inside }

// Globals returns how many of the sessions in the table are not local.
func (ss *Sessions) Globals() int {
	n := ss.Count()
	for i := range ss.entrances {
		n -= ss.entrances[i].inside
	}
	return n
}

// enter adds to the table a session that only its server knew before. The connection of the session's first write owns
// it.
func (t *Tree) enter(q *Request, r *Result) {
	var d jute.Decoder
	d.Reset(q.Body)
	id, scope, passwd, timeout := d.Long(), Scope(d.Byte()), d.Buffer(), d.Int()
	if d.Err() != nil || id == 0 || scope == Global || scope >= scopes || len(passwd) != jute.PasswdSize || timeout < 0 ||
		uint64(id^q.Session)>>56 != 0 {
		r.Err = jute.ErrMarshallingError
		return
	}
	if r.Outcome = t.sessions.pass(id, q.Seq); r.Outcome != Applied {
		return
	}
	if _, taken := t.sessions.index[q.Session]; taken || !validSessionID(q.Session) {
		r.Err = jute.ErrSystemError
		return
	}
	t.sessions.begin(session{
		id: q.Session, cnx: q.Cnx, next: 1, timeout: timeout, scope: scope, passwd: [jute.PasswdSize]byte(passwd),
	})
	r.Timeout = timeout
}

// pass admits the OpEnter with sequence seq of entrance id, if it is the next one.
func (ss *Sessions) pass(id, seq int64) Outcome {
	e := ss.entranceOf(id)
	have := *e
	if id > have.id || have.id == 0 {
		have.id, have.next = id, 1
	}
	switch {
	case id < have.id:
		return Ignored // from an earlier process of that server
	case seq < have.next:
		return Duplicate
	case seq > have.next:
		return Gap
	}
	ss.znodes.totals.digest -= ss.entranceDigest(e)
	have.next++
	*e = have
	ss.znodes.totals.digest += ss.entranceDigest(e)
	return Applied
}

// upgrade makes a session that requests an ephemeral znode global, if its scope allows that. The session stays global
// even if the request then fails.
func (ss *Sessions) upgrade(id int64) {
	slot, ok := ss.index[id]
	if !ok || ss.slots.at(slot).scope != LocalUpgrading {
		return
	}
	ss.entranceOf(id).inside--
	s := ss.edit(slot)
	ss.znodes.totals.digest -= ss.digestOf(s)
	s.scope = Global
	s.base = ss.baseOf(s)
	ss.znodes.totals.digest += ss.digestOf(s)
}

// local reports whether a session must not own ephemeral znodes.
func (ss *Sessions) local(id int64) bool {
	slot, ok := ss.index[id]
	return ok && ss.slots.at(slot).scope != Global
}

// asksEphemeral reports whether a multi would create an ephemeral znode.
func asksEphemeral(ops []jute.MultiOp) bool {
	for i := range ops {
		c := createRequest{op: ops[i].Op, mode: ops[i].Flags}
		if (c.op == jute.OpCreate || c.op == jute.OpCreate2) && c.kind() == ephemeral {
			return true
		}
	}
	return false
}

// appendEntrances appends the entrances that were ever used:
//
//	int count | count * (long id | long next)
func (ss *Sessions) appendEntrances(b []byte) []byte {
	count := 0
	for i := range ss.entrances {
		if ss.entrances[i].id != 0 {
			count++
		}
	}
	b = jute.AppendInt(b, int32(count))
	for i := range ss.entrances {
		if e := &ss.entrances[i]; e.id != 0 {
			b = jute.AppendLong(jute.AppendLong(b, e.id), e.next)
		}
	}
	return b
}

const entranceSize = 8 + 8

// loadEntrances decodes what appendEntrances wrote.
func (ss *Sessions) loadEntrances(d *jute.Decoder) error {
	for range max(d.Count(entranceSize), 0) {
		have := entrance{id: d.Long(), next: d.Long()}
		e := ss.entranceOf(have.id)
		if d.Err() != nil || have.id == 0 || e.id != 0 {
			return corrupt("the entrance %#x is invalid, or there twice", have.id)
		}
		*e = have
		ss.znodes.totals.digest += ss.entranceDigest(e)
	}
	return nil
}
