package tree

import (
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A Reconfigure computes the membership text, without a version line, that results from a reconfig request and the
// present text (the data of /zookeeper/config), or jute.ErrBadArguments. The result depends only on the arguments, so
// all replicas compute the same. zero says whether the new membership may have a server 0, which versions below
// levelZero reject as a bad argument.
type Reconfigure func(current string, req *jute.ReconfigRequest, zero bool) (next string, code jute.Code)

// levelZero is the lowest feature level at which a reconfig may name server 0.
const levelZero = 5

// takesZero reports whether a reconfig may name server 0.
func (s *Settings) takesZero() bool { return s.FeatureLevel >= levelZero }

// reconfig evaluates a client's reconfig. The body is the client's record followed by an int, the code determined by
// the server that received the request: OK, or jute.ErrNewConfigNoQuorum if it could reach too few of the new members.
func (t *Tree) reconfig(d *jute.Decoder, q *Request, r *Result) jute.Code {
	var req jute.ReconfigRequest
	req.Decode(d)
	reachable := jute.Code(d.Int())
	slot := t.find(pathConfig)
	n := t.at(slot)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshallingError
	case !t.settings.ReconfigEnabled:
		return jute.ErrReconfigDisabled
	case n.size() == 0 || t.reconfigure == nil:
		return jute.ErrUnimplemented // a standalone server
	case t.membership.change.id != 0:
		return jute.ErrReconfigInProgress
	case req.CurConfigID != -1 && req.CurConfigID != n.mzxid:
		return jute.ErrBadVersion
	}
	next, code := t.reconfigure(string(t.data(n)), &req, t.settings.takesZero())
	switch {
	case code != jute.OK:
		return code
	case reachable != jute.OK:
		return reachable
	case !t.access.allowsAt(pathConfig, n.acl, jute.PermWrite, q.Identities):
		return jute.ErrNoAuth
	case t.settings.FeatureLevel < levelStaged:
		t.setMembers(slot, next, r)
		return jute.OK
	}
	r.Outcome, r.Data = Staged, []byte(next)
	t.membership.set(change{
		id: r.Zxid, text: strings.Clone(next), session: q.Session, cnx: q.Cnx, seq: q.Seq, xid: q.Xid,
	})
	return jute.OK
}

// ReconfigCode returns the code that a reconfig by a client with the identities ids would get in the present state if
// all its members could be reached. A server calls it before it contacts them. It checks, in this order, whether
// reconfig is enabled, whether ids may change the membership, and the request. body is the client's record.
func (t *Tree) ReconfigCode(body []byte, ids []jute.ID) jute.Code {
	n := t.at(t.find(pathConfig))
	switch {
	case !t.settings.ReconfigEnabled:
		return jute.ErrReconfigDisabled
	case !t.access.allowsAt(pathConfig, n.acl, jute.PermWrite, ids):
		return jute.ErrNoAuth
	case n.size() == 0 || t.reconfigure == nil:
		return jute.ErrUnimplemented
	}
	var req jute.ReconfigRequest
	var d jute.Decoder
	d.Reset(body)
	req.Decode(&d)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshallingError
	case req.CurConfigID != -1 && req.CurConfigID < n.mzxid: // a higher one means that this server is behind
		return jute.ErrBadVersion
	}
	_, code := t.reconfigure(string(t.data(n)), &req, t.settings.takesZero())
	return code
}

// MembersInForce is the Seq of an OpMembers whose servers are already raft's voters.
const MembersInForce = 1

// beginMembers stores the membership with which the first leader of a new ensemble was started. From feature level 2 on
// it stages the membership, unless it is already in force. It changes nothing in an ensemble that has a membership.
func (t *Tree) beginMembers(members string, inForce bool, r *Result) {
	slot := t.find(pathConfig)
	switch {
	case t.at(slot).size() > 0 || t.membership.change.id != 0:
		r.Outcome = Ignored
	case inForce || t.settings.FeatureLevel < levelStaged:
		r.Zxid = t.position.nextZxid()
		t.setMembers(slot, members, r)
	default:
		r.Outcome, r.Zxid, r.Data = Staged, t.position.nextZxid(), []byte(members)
		t.membership.set(change{id: r.Zxid, text: strings.Clone(members)})
	}
}

// setMembers sets the data of /zookeeper/config to members (lines of server.N=...) followed by a
// line version= with the zxid of the change in hexadecimal. The znode's version is always -1.
func (t *Tree) setMembers(slot uint32, members string, r *Result) {
	if members != "" && members[len(members)-1] != '\n' {
		members += "\n"
	}
	r.Data = strconv.AppendUint([]byte(members+"version="), uint64(r.Zxid), 16)
	r.Stat = t.changeData(slot, pathConfig, r.Data, -1, r)
}
