//go:build unix

package shadow

import (
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A scripted is a proxy without sockets, into which a test puts frames.
type scripted struct {
	*Proxy
	t *testing.T
}

func newScripted(t *testing.T) scripted {
	return scripted{New(Options{Tell: func(*Difference) {}, Say: func(string) {}}), t}
}

// connected returns a connection with a session.
func (p scripted) connected(id int64) *conn {
	c := &conn{
		p: p.Proxy, fromClient: assembler{limit: requestMax}, fromPrimary: assembler{limit: replyMax},
		hello: &jute.ConnectRequest{}, greeted: true,
	}
	s := &session{
		id: id, timeout: time.Minute, c: c, attached: true, heard: time.Now(), ready: make(chan struct{}),
		ephemerals: map[string]bool{}, watched: watched{},
	}
	c.s, p.conns[c], p.sessions[id] = s, true, s
	return c
}

func (p scripted) ask(c *conn, xid int32, op jute.Op) {
	r := jute.SetDataRequest{Path: fmt.Sprintf("/%d", xid)}
	c.requested(jute.AppendRequest(nil, xid, op, r.Append))
}

func (p scripted) reply(c *conn, xid int32, zxid int64) {
	c.replied(jute.AppendReply(nil, jute.ReplyHeader{Xid: xid, Zxid: zxid}, nil))
}

func (p scripted) notify(c *conn, zxid int64) {
	e := jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: jute.StateSyncConnected, Path: "/1"}
	c.replied(jute.AppendReply(nil, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}, e.Append))
}

// plays checks which requests are played next.
func (p scripted) plays(want ...int32) {
	p.t.Helper()
	var got []int32
	for _, x := range p.next() {
		got = append(got, x.xid)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("%v are played, want %v", got, want)
	}
}

// TestOrder: requests are played in the order in which the primary has done them, whatever the order in which its
// replies come.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	a, b, c := p.connected(1), p.connected(2), p.connected(3)
	p.ask(a, 1, jute.OpSetData)
	p.ask(b, 2, jute.OpGetData)
	p.ask(c, 3, jute.OpGetData)
	p.reply(b, 2, 10) // a read of the state that the write of a has made
	p.plays()         // which isn't known yet
	p.reply(c, 3, 9)  // a read of the state before it
	p.plays()
	p.reply(a, 1, 10)
	p.ask(c, 4, jute.OpGetData) // sent later: it can't belong before
	p.plays(3)
	p.plays(1)
	p.plays(2)
	p.reply(c, 4, 10)
	p.plays(4)

	// A connection that has seen a zxid has no lower one to come.
	p.ask(a, 5, jute.OpSetData)
	p.ask(a, 6, jute.OpSetData)
	p.ask(b, 7, jute.OpSetData)
	p.reply(a, 5, 13)
	p.plays() // b's may be 12
	p.reply(b, 7, 12)
	p.plays(7)
	p.plays(5)
	p.ask(b, 8, jute.OpGetData)
	p.reply(b, 8, 13)
	p.plays(8)
	p.reply(a, 6, 14)
	p.plays(6)

	// What is answered out of turn keeps its place.
	p.ask(a, 9, jute.OpSetData)
	p.ask(a, jute.XidAuth, jute.OpAuth)
	p.reply(a, jute.XidAuth, 0)
	p.plays()
	p.reply(a, 9, 15)
	p.plays(9)
	p.plays(jute.XidAuth)

	// Who never gets an answer doesn't hold up the others for ever.
	p.ask(a, 10, jute.OpSetData)
	p.ask(b, 11, jute.OpGetData)
	p.reply(b, 11, 16)
	p.plays()
	p.queue[0].at = time.Now().Add(-2 * holdMax)
	p.plays(11)
	if a.off == "" || p.counts.Unplayed != 1 {
		t.Errorf("it is still shadowed, or its write isn't counted: %d", p.counts.Unplayed)
	}

	// Nor does a connection that ends.
	p.ask(b, 12, jute.OpSetData)
	p.ask(c, 13, jute.OpGetData)
	p.reply(c, 13, 17)
	p.plays()
	b.over(true)
	p.ask(b, 14, jute.OpSetData) // which was on its way
	if len(p.waiting) > 0 || p.doubts.why("/14", false) == "" {
		t.Errorf("%d connections are waited for", len(p.waiting))
	}
	if len(p.queue) != 2 || p.counts.Unanswered != 2 || p.doubts.why("/12", false) == "" {
		t.Errorf("what its last write did is not in doubt")
	}
}

// TestOwnNotification: a client gets the notification of its own write before the write's reply, with the same zxid.
// Other connections' reads of the new state wait for that reply. If the connection ends first, the path is in doubt.
func TestOwnNotification(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	a, b := p.connected(1), p.connected(2)
	p.ask(a, 1, jute.OpSetData)
	p.ask(b, 2, jute.OpGetData)
	p.notify(a, 10)
	p.reply(b, 2, 10)
	p.plays()
	p.reply(a, 1, 10)
	p.plays(1)
	p.plays(2)

	p.ask(a, 3, jute.OpSetData)
	p.ask(b, 4, jute.OpGetData)
	p.notify(a, 11)
	p.reply(b, 4, 11)
	p.plays()
	a.over(true) // the reply is lost
	if p.doubts.why("/3", false) == "" {
		t.Error("what the write did is not in doubt")
	}
	if batch := p.next(); len(batch) != 1 || batch[0].kind != detached {
		t.Errorf("%d are played; want the connection's end", len(batch))
	}
	p.plays(4)

	// A notification of another's write still shows that no lower zxid can follow.
	c := p.connected(3)
	p.ask(c, 5, jute.OpSetData)
	p.ask(b, 6, jute.OpGetData)
	p.reply(b, 6, 12)
	p.plays()
	p.notify(c, 13)
	p.plays(6)
}

// TestLateReplies: a zxid lower than one that has been played makes what differs unsure.
func TestLateReplies(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	a := p.connected(1)
	p.ask(a, 1, jute.OpSetData)
	p.reply(a, 1, 10)
	p.plays(1)
	b := p.connected(2)
	p.ask(b, 2, jute.OpGetData)
	p.reply(b, 2, 9)
	if batch := p.next(); len(batch) != 1 || !batch[0].late || p.doubt(batch[0], nil, false) == "" {
		t.Error("a late reply isn't told as one")
	}
}

// TestZxidMap: the shadow's zxid of a state of the primary's.
func TestZxidMap(t *testing.T) {
	t.Parallel()
	var m zxidMap
	if _, ok := m.at(5); ok {
		t.Error("an empty map knows a zxid")
	}
	for i := range int64(3 * zxidsMax) {
		m.add(10*i, 20*i)
		m.add(10*i, 20*i+1)
	}
	last := int64(3*zxidsMax - 1)
	for _, c := range []struct{ zxid, want int64 }{
		{10 * last, 20*last + 1}, {10*last + 5, 20*last + 1}, {10*last - 1, 20*last - 19},
	} {
		if got, ok := m.at(c.zxid); got != c.want || !ok {
			t.Errorf("zxid %d is %d, want %d", c.zxid, got, c.want)
		}
	}
	if _, ok := m.at(10); ok || len(m) > 2*zxidsMax {
		t.Errorf("the map holds %d", len(m))
	}
}

// TestDoubts: what a write that wasn't replayed may have changed, and no more.
func TestDoubts(t *testing.T) {
	t.Parallel()
	d := doubts{paths: map[string]doubt{}}
	create := jute.CreateRequest{Path: "/a/b"}
	d.write(jute.OpCreate, create.Append(nil), "one")
	create = jute.CreateRequest{Path: "/q/n-", Flags: jute.ModeEphemeralSequential}
	d.write(jute.OpMulti,
		jute.AppendMulti(nil,
			[]jute.MultiOp{{Op: jute.OpCreate, Path: create.Path, Flags: create.Flags}, {Op: jute.OpDelete, Path: "/m"}}), "two")
	for _, c := range []struct {
		path string
		wide bool
		want string
	}{
		{"/a/b", false, "one"}, {"/a", false, "one"}, {"/a/b/c/d", false, "one"}, {"/a/c", false, ""}, {"/", false, "two"},
		{"/q/n-0000000001", false, "two"}, {"/m", false, "two"}, {"/z", false, ""}, {"/a/", true, "one"}, {"/x", true, ""},
	} {
		if got := d.why(c.path, c.wide); got != c.want {
			t.Errorf("%s (wide %v): %q, want %q", c.path, c.wide, got, c.want)
		}
	}
	for i := range doubtsMax {
		d.add(fmt.Sprintf("/x/%d", i), doubtNode, "many")
	}
	if len(d.paths) > doubtsMax || d.why("/z", false) == "" {
		t.Errorf("%d paths are in doubt, and a path beyond the limit isn't", len(d.paths))
	}
}

// TestReplacedConnection: what a session's connection asked for before the next one came is played before what that one
// asks for, on the shadow's connection that it had; if no answer comes any more, its outcome isn't known.
func TestReplacedConnection(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	a := p.connected(1)
	p.ask(a, 1, jute.OpSetData)
	p.ask(a, 2, jute.OpSetData)
	b := &conn{p: p.Proxy, fromClient: assembler{limit: requestMax}, fromPrimary: assembler{limit: replyMax}}
	p.conns[b] = true
	hello := jute.ConnectRequest{SessionID: 1}
	b.requested(jute.AppendFrame(nil, hello.Append))
	answer := jute.ConnectResponse{SessionID: 1, Timeout: 1000}
	b.replied(jute.AppendFrame(nil, answer.Append))
	p.ask(b, 3, jute.OpGetData)
	p.reply(b, 3, 12)
	other := p.connected(2)
	p.ask(other, 4, jute.OpGetData)
	p.reply(other, 4, 13)
	p.plays()
	p.reply(a, 1, 11)
	p.plays(1)
	p.plays()
	patient(t, "over", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return a.closed
	})
	if batch := p.next(); len(batch) != 1 || batch[0].kind != detached {
		t.Errorf("%d are played; want the old connection's end", len(batch))
	}
	p.plays(3, 4)
	if p.counts.Unanswered != 1 {
		t.Errorf("%d writes count as not answered, want 1", p.counts.Unanswered)
	}
}

// TestACLLag: a write that Apache and Zooid judge by different ACLs, since it came while a setACL was being logged, is
// unsure; one that came later is not.
func TestACLLag(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	c := p.connected(1)
	set := jute.SetACLRequest{Path: "/1", ACL: jute.WorldACL(jute.PermAll)}
	write := jute.SetDataRequest{Path: "/1"}
	before := &exchange{c: c, s: c.s, op: jute.OpSetData, request: write.Append(nil), stamp: 10, code: jute.ErrNoAuth}
	p.noted(&exchange{c: c, s: c.s, op: jute.OpSetACL, request: set.Append(nil), stamp: 9, came: 11})
	after := *before
	after.stamp = 12
	if !p.aclLags(flight{before, nil, &call{}}) || p.aclLags(flight{&after, nil, &call{}}) {
		t.Error("only the write that came before the setACL's reply may be judged by the old ACL")
	}
	multi := &exchange{
		c: c, s: c.s, op: jute.OpMulti, stamp: 10, request: jute.AppendMulti(nil,
			[]jute.MultiOp{{Op: jute.OpCreate, Path: "/1/a"}}),
	}
	refused := jute.MultiResult{Op: jute.OpError, Err: jute.ErrNoAuth}
	if !p.aclLags(flight{multi, nil, &call{body: jute.AppendMultiEnd(refused.Append(nil))}}) {
		t.Error("a multi is judged by the old ACL, too")
	}
	for i := range 2 * aclsMax {
		set.Path = fmt.Sprintf("/x/%d", i)
		p.noted(&exchange{c: c, s: c.s, op: jute.OpSetACL, request: set.Append(nil), came: 20})
	}
	if len(p.acls) > aclsMax {
		t.Errorf("%d setACLs are remembered", len(p.acls))
	}
}

// TestEndedSessionHoldsNobodyUp: a connection whose session has ended isn't waited for, whatever it asked for last.
func TestEndedSessionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	a, other := p.connected(1), p.connected(2)
	newer := p.connected(3) // a's session has gone on there
	newer.s, a.s.c = a.s, newer
	p.ask(a, 1, jute.OpSetData)
	p.ask(newer, 2, jute.OpSetData)
	p.ask(other, 3, jute.OpGetData)
	p.reply(other, 3, 10)
	p.plays()
	p.mu.Lock()
	p.forget(a.s)
	p.mu.Unlock()
	p.plays(3)

	// Nor is one that was left out in between.
	b := p.connected(4)
	p.ask(b, 4, jute.OpSetData)
	p.ask(other, 5, jute.OpGetData)
	p.reply(other, 5, 11)
	b.s.ended = true
	p.queue[0].at = time.Now().Add(-2 * holdMax)
	p.plays(5)
	if p.bytes != other.bytes {
		t.Errorf("%d bytes are counted, of which %d are the other connection's", p.bytes, other.bytes)
	}
}
