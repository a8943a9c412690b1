package tree

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// levelStaged is the feature level from which on changes of membership are staged.
const levelStaged = 2

// A ChangeStep is what an OpChange does to the change of membership under way.
// The leader asks for each step when raft's membership allows it:
//
//	staged ──▶ ChangeNamed ──▶ ChangeDone
//	   └─────▶ ChangeDropped
type ChangeStep byte

// The steps.
const (
	// ChangeNamed makes /zookeeper/config name the membership asked for. A majority
	// of that, and one of the membership before, commit the entry.
	ChangeNamed ChangeStep = iota + 1
	// ChangeDone ends the change and answers the request: a majority of the
	// membership asked for commits the entry, and no other server's vote counts.
	ChangeDone
	// ChangeDropped ends a change that was not named yet and never will be: too few
	// of the servers it asks for caught up in time.
	ChangeDropped
)

// change is a change of membership under way. There is one at most.
type change struct {
	id    int64 // zxid of the request; 0 for no change
	text  string
	named bool // /zookeeper/config holds text

	// Of the reconfig to answer; session is 0 if nobody asked.
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
	c := change{id: d.Long(), text: strings.Clone(d.String()), named: d.Bool(), session: d.Long(), cnx: d.Long(), seq: d.Long()}
	c.xid = d.Int()
	return c
}

func (t *Tree) setChange(c change) {
	t.totals.digest -= t.changeDigest()
	t.change = c
	t.totals.digest += t.changeDigest()
}

// AppendChange appends the body of an OpChange request, which takes the change id a
// step further.
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

// stepChange applies an OpChange. The leader may ask twice, and a former leader's
// request may come late: a step that doesn't follow is ignored. The last step's
// result is that of the reconfig.
func (t *Tree) stepChange(body []byte, r *Result) {
	id, step, err := decodeStep(body)
	accepted(err)
	c := t.change
	if c.id == 0 || id != c.id || c.named != (step == ChangeDone) {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.nextZxid()
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

// A Change is a change of membership under way.
type Change struct {
	ID      int64
	Text    string // the membership asked for, without its version
	Named   bool   // /zookeeper/config holds it
	Timeout int32  // ms, of the session that asked; 0 if nobody waits
}

// Change returns the change of membership under way; ok is false if there is none.
func (t *Tree) Change() (c Change, ok bool) {
	c = Change{ID: t.change.id, Text: t.change.text, Named: t.change.named}
	if s, ok := t.Session(t.change.session); ok {
		c.Timeout = s.Timeout
	}
	return c, c.ID != 0
}
