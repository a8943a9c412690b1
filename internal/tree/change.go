package tree

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// levelStaged is the first feature level at which changes of membership are staged.
const levelStaged = 2

// A ChangeStep is a step of the change of membership in progress, taken by an OpChange. The leader
// requests each step when raft's membership allows it:
//
//	staged ──▶ ChangeNamed ──▶ ChangeDone
//	   └─────▶ ChangeDropped
type ChangeStep byte

// The steps.
const (
	// ChangeNamed writes the requested membership to /zookeeper/config. The entry is committed by a
	// majority of the requested membership and a majority of the previous one.
	ChangeNamed ChangeStep = iota + 1
	// ChangeDone ends the change and answers the request. A majority of the requested membership
	// commits the entry; no other server's vote counts.
	ChangeDone
	// ChangeDropped ends a change that has not been named and never will be, because too few of the
	// requested servers caught up in time.
	ChangeDropped
)

// change is the change of membership in progress. There is at most one.
type change struct {
	id    int64 // zxid of the request; 0 for no change
	text  string
	named bool // /zookeeper/config holds text

	// The reconfig to answer; session is 0 if no client asked for the change.
	session, cnx, seq int64
	xid               int32
}

// append appends the change to a snapshot:
//
//	long id | ustring text | bool named | long session | long cnx | long seq | int xid
func (c *change) append(b []byte) []byte {
	b = jute.AppendBool(jute.AppendString(jute.AppendLong(b, c.id), c.text), c.named)
	b = jute.AppendLong(jute.AppendLong(jute.AppendLong(b, c.session), c.cnx), c.seq)
	return jute.AppendInt(b, c.xid)
}

func decodeChange(d *jute.Decoder) change {
	c := change{
		id: d.Long(), text: strings.Clone(d.String()), named: d.Bool(), session: d.Long(), cnx: d.Long(), seq: d.Long(),
	}
	c.xid = d.Int()
	return c
}

func (t *Tree) setChange(c change) {
	t.totals.digest -= t.changeDigest()
	t.change = c
	t.totals.digest += t.changeDigest()
}

// AppendChange appends the body of an OpChange request, which takes the given step of change id.
func AppendChange(b []byte, id int64, step ChangeStep) []byte {
	return append(jute.AppendLong(b, id), byte(step))
}

func decodeStep(body []byte) (id int64, step ChangeStep, err error) {
	d := jute.NewDecoder(body)
	id, step = d.Long(), ChangeStep(d.Byte())
	if d.Err() != nil || step < ChangeNamed || step > ChangeDropped {
		err = fmt.Errorf("decode a step of a change of membership: its body is %x: upgrade this server", body)
	}
	return id, step, err
}

// stepChange applies an OpChange. A leader may request a step twice, and a former leader's request may arrive late, so
// steps out of order are ignored. The result of the last step is the result of the reconfig.
func (t *Tree) stepChange(body []byte, r *Result) {
	id, step, err := decodeStep(body)
	accepted(err)
	c := t.change
	if c.id == 0 || id != c.id || c.named != (step == ChangeDone) {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.position.nextZxid()
	slot := t.find(pathConfig)
	if step == ChangeNamed {
		c.named = true
		t.setChange(c)
		t.setMembers(slot, c.text, r)
		return
	}
	t.setChange(change{})
	r.Op, r.Session, r.Cnx, r.Seq, r.Xid = jute.OpReconfig, c.session, c.cnx, c.seq, c.xid
	if step == ChangeDropped {
		r.Err = jute.ErrNewConfigNoQuorum
		return
	}
	n := t.at(slot)
	r.Data, r.Stat = t.data(n), t.stat(n)
}

// A Change is a change of membership in progress.
type Change struct {
	ID      int64
	Text    string // the requested membership, without its version
	Named   bool   // /zookeeper/config holds Text
	Asked   bool   // a client requested it by a reconfig
	Timeout int32  // of the requesting session, in ms; 0 if no client requested it or the session has ended
}

// Change returns the change of membership in progress; ok is false if there is none.
func (t *Tree) Change() (c Change, ok bool) {
	c = Change{ID: t.change.id, Text: t.change.text, Named: t.change.named, Asked: t.change.session != 0}
	if s, ok := t.sessions.Get(t.change.session); ok {
		c.Timeout = s.Timeout
	}
	return c, c.ID != 0
}

// MembersVersion returns a number that differs for any two states of the membership and the change in progress, or 0 if
// there is neither.
func (t *Tree) MembersVersion() int64 {
	n := t.at(t.find(pathConfig))
	if t.change.id == 0 && len(t.data(n)) == 0 {
		return 0
	}
	// Change ids and config versions are zxids, each larger than the one before.
	version := 2 * max(n.mzxid, t.change.id)
	if t.change.named {
		version++
	}
	return version
}
