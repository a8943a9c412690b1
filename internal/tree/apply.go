package tree

import (
	"github.com/zooid-project/zooid/jute"
)

// An error means that the entry can't be applied: it is corrupt, out of order, or from a newer version. In this case
// the entry has changed nothing, and the replica must stop.
func (t *Tree) Apply(term, index uint64, batch []byte, visit func(*Result)) error {
	records, err := t.validate(batch)
	if err != nil {
		return err
	}
	if err := t.position.follow(term, index, records.Time(), t.settings.FeatureLevel); err != nil {
		return err
	}
	i := 0
	for ; ; i++ {
		if i%PrefetchMax == 0 {
			t.prefetchRecords(records)
		}
		if !records.Next(&t.request) {
			break
		}
		t.scratch = t.scratch[:0]
		t.result.reset(&t.request)
		t.result.Time = t.position.time
		t.apply(&t.request, &t.result)
		if visit != nil {
			visit(&t.result)
		}
	}
	t.dropLarge()
	if t.compacts() {
		t.compact(min(i*compactPerRequest, compactSlots))
	}
	accepted(records.Err())
	return nil
}

// accepted panics if something that validate has decoded can't be decoded again: by then a part of the entry is
// applied.
func accepted(err error) {
	if err != nil {
		panic("tree: a validated entry can't be applied: " + err.Error())
	}
}

// scratchKeep (bytes of paths) and resultKeep (events and results) bound the memory that is kept
// for later requests: the end of one session may delete a million znodes.
const (
	scratchKeep = 64 << 10
	resultKeep  = 1024
)

// dropLarge drops the memory of an unusually large request.
func (t *Tree) dropLarge() {
	if cap(t.scratch) > scratchKeep {
		t.scratch = nil
	}
	t.quotas.dropLarge()
	if r := &t.result; cap(r.Events) > resultKeep || cap(r.Multi) > resultKeep {
		r.Events, r.Multi = nil, nil
	}
}

// apply evaluates one request of a validated batch.
func (t *Tree) apply(q *Request, r *Result) {
	r.Zxid = t.position.zxid
	t.quotas.begin()
	switch q.Op {
	case jute.OpCreateSession:
		t.createSession(q, r)
		return
	case OpAttach:
		t.attach(q, r)
		return
	case OpExpire:
		t.expire(q, r)
		return
	case OpEnter:
		t.enter(q, r)
		return
	}
	if q.Session != 0 {
		if r.Outcome = t.sessions.admit(q); r.Outcome != Applied {
			r.Err = outcomeCode(r.Outcome)
			return
		}
		r.Zxid = t.position.nextZxid()
		t.write(q, r)
		return
	}
	switch q.Op {
	case OpSettings:
		t.applySettings(q.Body)
	case OpSecret:
		t.applySecret(q.Body, r)
	case OpLineage:
		t.applyLineage(q.Body, r)
	case OpMembers:
		t.beginMembers(string(q.Body), q.Seq == MembersInForce, r)
	case OpChange:
		t.stepChange(q.Body, r)
	case jute.OpDeleteContainer:
		t.reap(q, r)
	case jute.OpCloseSession:
		r.Outcome = Ignored
	default:
		r.Zxid = t.position.nextZxid()
		t.write(q, r)
	}
}

func outcomeCode(o Outcome) jute.Code {
	switch o {
	case Moved:
		return jute.ErrSessionMoved
	case SessionGone:
		return jute.ErrSessionExpired
	}
	return jute.OK
}

func (t *Tree) applySettings(body []byte) {
	s, err := t.decodeSettings(jute.NewDecoder(body))
	accepted(err)
	t.totals.digest -= t.settings.digest(&t.key)
	t.set(s)
	t.totals.digest += t.settings.digest(&t.key)
	t.access.readPolicy()
}

// write evaluates a request, which has its zxid.
func (t *Tree) write(q *Request, r *Result) {
	t.access.begin()
	var d jute.Decoder
	d.Reset(q.Body)
	switch q.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		c := createRequest{op: q.Op, path: d.String(), data: d.Buffer()}
		c.acl = t.access.fixACL(&d, q.Identities)
		c.mode, c.ttl = jute.CreateMode(d.Int()), -1
		if q.Op == jute.OpCreateTTL {
			c.ttl = d.Long()
		}
		if r.Err = malformed(&d); r.Err == jute.OK {
			if c.kind() == ephemeral {
				t.sessions.upgrade(q.Session)
			}
			r.Path, r.Stat, r.Err = t.create(&c, q, r)
		}
	case jute.OpDelete:
		path, version := d.String(), d.Int()
		if r.Err = malformed(&d); r.Err == jute.OK {
			r.Err = t.delete(path, version, q, r)
		}
	case jute.OpSetData:
		path, data, version := d.String(), d.Buffer(), d.Int()
		if r.Err = malformed(&d); r.Err == jute.OK {
			r.Stat, r.Err = t.writeData(path, data, version, q, r)
		}
	case jute.OpSetACL:
		path := d.String()
		acl := t.access.fixACL(&d, q.Identities)
		version := d.Int()
		if r.Err = malformed(&d); r.Err == jute.OK {
			r.Stat, r.Err = t.writeACL(path, acl, version, q)
		}
	case jute.OpMulti:
		t.multi(&d, q, r)
	case jute.OpCloseSession:
		t.closeSession(q.Session, r)
	case jute.OpReconfig:
		r.Err = t.reconfig(&d, q, r)
	case OpRestore:
		if r.Err = jute.ErrUnimplemented; q.Session != 0 {
			r.Err = t.restore(&d, q, r)
		}
	default: // internal requests, which no client may send
		r.Err = jute.ErrUnimplemented
	}
	if t.access.budget.Exceeded && (r.Err == jute.ErrInvalidACL || q.Op == jute.OpMulti) {
		r.Limit = LimitACL
	}
}

func malformed(d *jute.Decoder) jute.Code {
	if d.Err() != nil {
		return jute.ErrMarshallingError
	}
	return jute.OK
}
