package tree

import (
	"strconv"

	"github.com/zooid-project/zooid/jute"
)

// A Reconfigure returns the membership text that a reconfig request asks for,
// from the one in force (the data of /zookeeper/config), without its version
// line; or jute.ErrBadArguments. It is a function of its arguments alone, the
// same on all replicas.
type Reconfigure func(current string, req *jute.ReconfigRequest) (next string, code jute.Code)

// reconfig evaluates a client's reconfig: it stores the membership asked for,
// which the leader then brings about. Body is the client's record followed by an
// int, the code that the server which took the request found: OK, or
// jute.ErrNewConfigNoQuorum if too few of the new members can be reached.
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
		return jute.ErrUnimplemented // a server alone
	case req.CurConfigID != -1 && req.CurConfigID != n.mzxid:
		return jute.ErrBadVersion
	}
	next, code := t.reconfigure(string(t.data(n)), &req)
	switch {
	case code != jute.OK:
		return code
	case reachable != jute.OK:
		return reachable
	case !t.allows(n.acl, jute.PermWrite, q.Identities):
		return jute.ErrNoAuth
	}
	t.setMembers(slot, next, r)
	return jute.OK
}

// beginMembers stores the membership that a new ensemble's first leader was started
// with; in one that has a membership already it changes nothing.
func (t *Tree) beginMembers(members string, r *Result) {
	slot := t.find(pathConfig)
	if t.at(slot).size() > 0 {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.nextZxid()
	t.setMembers(slot, members, r)
}

// setMembers makes members (lines of server.N=...), followed by a line version=
// with the change's zxid in hexadecimal, the data of /zookeeper/config. The
// znode's version is always -1.
func (t *Tree) setMembers(slot uint32, members string, r *Result) {
	if members != "" && members[len(members)-1] != '\n' {
		members += "\n"
	}
	r.Data = strconv.AppendUint([]byte(members+"version="), uint64(r.Zxid), 16)
	r.Stat = t.changeData(slot, pathConfig, r.Data, -1, r)
}

// Members returns the membership text of the ensemble, "" for a server alone,
// and the zxid of the change that made it.
func (t *Tree) Members() (text string, version int64) {
	n := t.at(t.find(pathConfig))
	return string(t.data(n)), n.mzxid
}
