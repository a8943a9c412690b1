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

// A Membership says who the servers of the ensemble are. It owns the change in progress, which is part of the digest.
// The members in force are the data of /zookeeper/config, which requests write like any other znode.
type Membership struct {
	znodes   *znodes   // of the same tree
	sessions *Sessions // which ask for changes
	change   change
}

// set sets the change in progress.
func (m *Membership) set(c change) {
	k := &m.znodes.key
	m.znodes.totals.digest -= m.change.digest(k)
	m.change = c
	m.znodes.totals.digest += m.change.digest(k)
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
	c := t.membership.change
	if c.id == 0 || id != c.id || c.named != (step == ChangeDone) {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.position.nextZxid()
	slot := t.find(pathConfig)
	if step == ChangeNamed {
		c.named = true
		t.membership.set(c)
		t.setMembers(slot, c.text, r)
		return
	}
	t.membership.set(change{})
	r.Op, r.Session, r.Cnx, r.Seq, r.Xid = jute.OpReconfig, c.session, c.cnx, c.seq, c.xid
	if step == ChangeDropped {
		r.Err = jute.ErrNewConfigNoQuorum
		return
	}
	n := t.at(slot)
	r.Data, r.Stat = t.data(n), t.stat(n)
}

// Members returns the membership text of the ensemble, "" for a standalone server, and the zxid of
// the change that set it.
func (m *Membership) Members() (text string, version int64) {
	n := m.znodes.at(m.znodes.find(pathConfig))
	return string(m.znodes.data(n)), n.mzxid
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
func (m *Membership) Change() (c Change, ok bool) {
	c = Change{ID: m.change.id, Text: m.change.text, Named: m.change.named, Asked: m.change.session != 0}
	if s, ok := m.sessions.Get(m.change.session); ok {
		c.Timeout = s.Timeout
	}
	return c, c.ID != 0
}

// Version returns a number that differs for any two states of the membership and the change in progress, or 0 if
// there is neither.
func (m *Membership) Version() int64 {
	n := m.znodes.at(m.znodes.find(pathConfig))
	if m.change.id == 0 && len(m.znodes.data(n)) == 0 {
		return 0
	}
	// Change ids and config versions are zxids, each larger than the one before.
	version := 2 * max(n.mzxid, m.change.id)
	if m.change.named {
		version++
	}
	return version
}
