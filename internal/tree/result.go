package tree

import (
	"slices"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// An Outcome says how apply handled a request. Only Applied and Staged take a zxid (except that
// OpAttach, OpEnter, OpSettings, OpSecret and OpLineage never do).
type Outcome uint8

// The outcomes.
const (
	Applied     Outcome = iota // evaluated; it may still have failed with Err
	Ignored                    // an internal request that no longer holds
	Duplicate                  // applied before: its sequence is below the next one, or its connection owns the session
	Gap                        // its sequence is above the next one: the requests in between must come first
	Moved                      // another connection owns the session
	SessionGone                // there is no such session
	Staged                     // a checked and recorded change of membership; the result of a later OpChange answers it
)

// A Limit is a limit for which a request was refused.
type Limit uint8

// The limits that are counted. Err alone doesn't distinguish a request that exceeds one from a malformed request.
const (
	NoLimit    Limit = iota
	LimitACL         // entries of an ACL, or bytes that its auth entries expand to
	LimitMulti       // operations of a multi
	LimitReply       // bytes of a reply
	Limits           // how many there are
)

var limitNames = [...]string{"none", "acl", "multi", "reply"}

// String returns the limit's name.
func (l Limit) String() string { return limitNames[l] }

var outcomeNames = [...]string{"applied", "ignored", "duplicate", "gap", "moved", "session gone", "staged"}

// String returns the outcome in words.
func (o Outcome) String() string { return outcomeNames[o] }

// An Event is a change that watches may wait for. ACL is the ACL of the changed znode (of the parent for
// EventNodeChildrenChanged) at that time: a client that may not read the znode isn't notified. ACL may be retained,
// Path may not.
type Event struct {
	Type jute.EventType
	Path string
	ACL  []jute.ACL
	TTL  bool  // a znode with a time to live was created or deleted
	Size int32 // of the data of a created or changed znode

	index *auth.Index // of ACL; nil if there is none
}

// A Result is the result of a request. It is reused: everything in it except Event.ACL is valid
// only until visit returns.
type Result struct {
	Op      jute.Op
	Session int64
	Cnx     int64
	Seq     int64
	Xid     int32
	Request *Request // as in the log; for the reply to a staged reconfig, the request of the last step

	Time    int64 // of its batch, as adjusted by the tree
	Outcome Outcome
	Zxid    int64     // the request's own; the tree's last one if it took none
	Err     jute.Code // for the ReplyHeader; OK for a multi that failed, whose Multi has the codes
	Path    string    // create: the path with its sequence number
	Stat    jute.Stat // create, setData, setACL, reconfig
	Data    []byte    // reconfig: the new configuration; for a staged one, the requested membership
	Multi   []jute.MultiResult
	Limit   Limit // the limit for which the request was refused
	// OverQuota is the path of the quota whose hard limit refused the request or an operation of a multi; "" if none did.
	OverQuota string
	Timeout   int32   // createSession, attach, enter: session timeout, ms
	Closed    bool    // closeSession, expire: the session Session has ended
	Ended     []int64 // replace: the sessions that it ended
	Events    []Event // in the order in which they happened
}

func (r *Result) reset(q *Request) {
	for i := range r.Multi {
		r.Multi[i] = jute.MultiResult{}
	}
	clear(r.Events) // of paths
	*r = Result{
		Op: q.Op, Session: q.Session, Cnx: q.Cnx, Seq: q.Seq, Xid: q.Xid, Request: q,
		Events: r.Events[:0], Multi: r.Multi[:0],
	}
}

// event adds an event. The caller sets its other fields.
func (r *Result) event(typ jute.EventType, path string, acl rights) *Event {
	r.Events = append(r.Events, Event{Type: typ, Path: path, ACL: acl.list, index: acl.index})
	return &r.Events[len(r.Events)-1]
}

// multiResultRoom returns the most bytes that the result of one operation takes in a reply.
func multiResultRoom(m *jute.MultiResult) int {
	const header, stat = 9, 68
	switch m.Op {
	case jute.OpDelete, jute.OpCheck, jute.OpError:
		return header + 4
	}
	return header + 4 + len(m.Path) + stat
}

// AppendReply appends the body of the reply, without its ReplyHeader. It appends nothing if Err isn't OK.
func (r *Result) AppendReply(dst []byte) []byte {
	if r.Err != jute.OK {
		return dst
	}
	switch r.Op {
	case jute.OpCreate:
		return jute.AppendString(dst, r.Path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return r.Stat.Append(jute.AppendString(dst, r.Path))
	case jute.OpSetData, jute.OpSetACL:
		return r.Stat.Append(dst)
	case jute.OpReconfig:
		return r.Stat.Append(jute.AppendBuffer(dst, r.Data))
	case jute.OpMulti:
		size := 0
		for i := range r.Multi {
			size += multiResultRoom(&r.Multi[i])
		}
		dst = slices.Grow(dst, size)
		for i := range r.Multi {
			dst = r.Multi[i].Append(dst)
		}
		return jute.AppendMultiEnd(dst)
	}
	return dst
}
