package tree

import (
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// multi evaluates the operations of a multi one after another on the live state, all with the
// same zxid, and undoes all of them if one fails.
func (t *Tree) multi(d *jute.Decoder, q *Request, r *Result) {
	ops, err := jute.DecodeMultiInto(t.multiOps[:0], d)
	defer t.keepOps(ops)
	if err == nil && len(ops) > multiOpsMax && t.settings.FeatureLevel >= 2 {
		r.Err, r.Limit = jute.ErrMarshallingError, LimitMulti
		return
	}
	if err != nil || !normalize(ops) {
		r.Err = jute.ErrMarshallingError
		return
	}
	if asksEphemeral(ops) {
		t.sessions.upgrade(q.Session) // it stays global if the multi fails
	}
	t.begin()
	t.access.keepVerdicts()
	defer t.access.forgetVerdicts()
	var acl sameACL
	r.Multi = slices.Grow(r.Multi[:0], len(ops))
	r.Events = slices.Grow(r.Events, eventsOf(ops))
	for i := range ops {
		result, code := t.multiOp(&ops[i], &acl, q, r)
		if code != jute.OK {
			t.rollback()
			r.Events = r.Events[:0]
			r.Multi = failedResults(r.Multi[:0], len(ops), i, code)
			return
		}
		r.Multi = append(r.Multi, result)
	}
	t.commit()
}

// eventsOf returns how many events the operations have if they succeed.
func eventsOf(ops []jute.MultiOp) (n int) {
	for i := range ops {
		switch op := ops[i].Op; {
		case op.IsCreate(), op == jute.OpDelete:
			n += 2
		case op == jute.OpSetData:
			n++
		}
	}
	return n
}

// multiOpsMax bounds the operations of a multi from feature level 2 on; a multi with more is a MarshallingError. With
// the default jute.maxbuffer, a request has no room for so many.
const multiOpsMax = 1 << 16

// multiOpsKeep is the largest number of operations whose memory is kept for the next multi.
const multiOpsKeep = 1024

// keepOps keeps the memory of ops for the next multi, and clears it because it refers to the log entry.
func (t *Tree) keepOps(ops []jute.MultiOp) {
	if cap(ops) > multiOpsKeep {
		ops = nil
	}
	clear(ops)
	t.multiOps = ops
}

// normalize gives each create the operation that Apache derives from its flags. It reports whether all operations are
// allowed in a multi.
func normalize(ops []jute.MultiOp) bool {
	for i := range ops {
		o := &ops[i]
		switch o.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
			if !o.Flags.Valid() || o.Flags.TTL() {
				return false
			}
			o.TTL = -1
		case jute.OpCreateTTL:
			if !o.Flags.TTL() { // its mode may be invalid: create checks that
				o.Op, o.TTL = jute.OpCreate, -1
			}
		case jute.OpDelete, jute.OpSetData, jute.OpCheck:
		default: // reads, which belong in a multiRead
			return false
		}
		if o.Flags == jute.ModeContainer && (o.Op == jute.OpCreate || o.Op == jute.OpCreate2) {
			o.Op = jute.OpCreateContainer
		}
	}
	return true
}

// A sameACL keeps the result for the last ACL of a multi, since most operations have the same ACL.
type sameACL struct {
	sent []jute.ACL
	fix  aclFix
}

func (s *sameACL) of(a *Access, acl []jute.ACL, ids []jute.ID) aclFix {
	if len(acl) == 0 || !slices.Equal(acl, s.sent) {
		s.sent, s.fix = acl, a.fixList(acl, ids)
	}
	return s.fix
}

// multiOp evaluates one operation.
func (t *Tree) multiOp(o *jute.MultiOp, acl *sameACL, q *Request, r *Result) (result jute.MultiResult, code jute.Code) {
	result.Op = o.Op
	switch o.Op {
	case jute.OpDelete:
		code = t.delete(o.Path, o.Version, q, r)
	case jute.OpSetData:
		result.Stat, code = t.writeData(o.Path, o.Data, o.Version, q, r)
	case jute.OpCheck:
		code = t.check(o.Path, o.Version, q)
	default:
		c := createRequest{o.Op, o.Path, o.Data, acl.of(&t.access, o.ACL, q.Identities), o.Flags, o.TTL}
		result.Path, result.Stat, code = t.create(&c, q, r)
		if o.Op != jute.OpCreate {
			result.Op = jute.OpCreate2
		}
	}
	return result, code
}

// failedResults returns the results of a multi of n operations in which the operation with the index failed returned
// code. The operations before it succeeded but are undone, and those after it weren't tried.
func failedResults(results []jute.MultiResult, n, failed int, code jute.Code) []jute.MultiResult {
	for i := range n {
		e := jute.MultiResult{Op: jute.OpError}
		switch {
		case i == failed:
			e.Err = code
		case i > failed:
			e.Err = jute.ErrRuntimeInconsistency
		}
		results = append(results, e)
	}
	return results
}
