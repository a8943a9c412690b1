package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// TestRefusalsReachNoLog sends requests that are not taken. Each is answered with the
// code of its verdict, in its place, and nothing of it is in the proposals or counted as
// its operation.
func TestRefusalsReachNoLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(s *diskShell, c *Client)
		op      jute.Op
		record  func([]byte) []byte
		code    jute.Code
		ends    bool
	}{
		"no such operation":       {nil, 77, nil, jute.ErrUnimplemented, true},
		"an operation of the log": {nil, jute.OpCreateSession, nil, jute.ErrUnimplemented, true},
		"part of a multi":         {nil, jute.OpCheck, deleting("/turn"), jute.ErrUnimplemented, true},
		"a disk that is full": {
			func(s *diskShell, _ *Client) { s.rep.room.none.Store(true) }, jute.OpSetData, setting("/turn", nil),
			jute.ErrThrottledOp, false,
		},
		"a full disk, and membership": {
			func(s *diskShell, _ *Client) { s.rep.room.none.Store(true) }, jute.OpReconfig, nil, jute.ErrThrottledOp, false,
		},
		"memory that is short":     {shortOfMemory, jute.OpCreate, creating("/b", nil, 0), jute.ErrThrottledOp, false},
		"a watch, short of memory": {shortOfMemory, jute.OpGetData, reading("/turn", true), jute.ErrThrottledOp, false},
		"a write, read-only":       {readOnly, jute.OpSetData, setting("/turn", nil), jute.ErrNotReadOnly, false},
		"a sync, read-only":        {readOnly, jute.OpSync, deleting("/turn"), jute.ErrNotReadOnly, false},
		"the end of a session in none": {
			func(_ *diskShell, c *Client) { c.reader.inTable = notEntered }, jute.OpCloseSession, nil, jute.OK, true,
		},
		"the end of one, read-only": {readOnly, jute.OpCloseSession, nil, jute.OK, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cl := pipelined(t)
			if c.prepare != nil {
				c.prepare(s, cl)
			}
			p := &pipeline{}
			s.send(cl, p.request(nil, c.op, c.record))
			if b, _ := s.rep.proposals.Take(); b != nil {
				t.Fatalf("%d bytes are in the proposals", len(b))
			}
			replies := s.repliesNow(cl)
			if len(replies) != 1 || replies[0].Err != c.code || replies[0].Xid != p.xid || len(replies[0].body) != 0 {
				t.Fatalf("answered %+v, want one reply with %v", replies, c.code)
			}
			if ends := cl.Ending() != ""; ends != c.ends {
				t.Errorf("the connection ends: %q", cl.Ending())
			}
			want := "NA"
			if c.op == jute.OpCloseSession {
				want = "CLOS"
			}
			if got := cl.status().LastOp; got != want {
				t.Errorf("the request is counted as %s, want %s", got, want)
			}
		})
	}
}

func shortOfMemory(s *diskShell, _ *Client) { s.rep.memory.tight.Store(int32(memory.RefuseGrowth)) }

// TestSetsUnderASnapshot: while memory is short and a snapshot keeps much of what has changed since it began, sets are
// refused; deletes aren't, and sets are taken again once it ends.
func TestSetsUnderASnapshot(t *testing.T) {
	t.Parallel()
	s, cl := pipelined(t)
	p, data := &pipeline{}, make([]byte, 2000)
	s.want(cl, p, jute.OK, jute.OpCreate, creating("/n", data, 0))
	shortOfMemory(s, cl)
	s.rep.memory.limit.Store(16_000) // so that a snapshot may keep 1,000
	s.want(cl, p, jute.OK, jute.OpSetData, setting("/n", data))
	img := s.rep.Snapshot()
	s.want(cl, p, jute.OK, jute.OpSetData, setting("/n", data))
	s.want(cl, p, jute.ErrThrottledOp, jute.OpSetData, setting("/n", data))
	s.rep.memory.tight.Store(int32(memory.RefuseCostliest))
	s.want(cl, p, jute.OK, jute.OpSetData, setting("/n", data))
	shortOfMemory(s, cl)
	s.want(cl, p, jute.OK, jute.OpDelete, deleting("/turn"))
	img.Close()
	s.want(cl, p, jute.OK, jute.OpSetData, setting("/n", data))
}

func readOnly(_ *diskShell, c *Client) { c.readOnly = true }

// TestRefusedForItsLevel refuses a write that some member's version doesn't know; there is
// none for clients yet.
func TestRefusedForItsLevel(t *testing.T) {
	t.Parallel()
	s, cl := pipelined(t)
	var h jute.ReplyHeader
	h.Decode(jute.NewDecoder(s.rep.refuse(cl, nil, notInForce, 5)[frameLengthSize:]))
	if want := (jute.ReplyHeader{Xid: 5, Zxid: s.rep.tree.LastZxid(), Err: jute.ErrUnimplemented}); h != want ||
		cl.Ending() != "" {
		t.Errorf("answered %+v, want %+v; the connection ends: %q", h, want, cl.Ending())
	}
}

// TestRefusalsKeepTheirPlace pipelines requests of which some are refused among others that
// wait for a sync: all answers come in the order of the requests, and a refused sync or
// reconfig holds nothing behind it back.
func TestRefusalsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	s, cl := pipelined(t)
	p := &pipeline{}
	in := p.request(nil, jute.OpSync, deleting("/turn"))
	s.send(cl, p.request(in, jute.OpSetData, setting("/turn", []byte("a"))))
	cl.readOnly = true
	for _, op := range []jute.Op{jute.OpSync, jute.OpReconfig, jute.OpSetData} {
		s.send(cl, p.request(nil, op, deleting("/turn")))
	}
	cl.readOnly = false
	in = p.request(nil, jute.OpSetData, setting("/turn", []byte("b")))
	s.send(cl, p.request(in, jute.OpGetData, reading("/turn", false)))
	want := []jute.Code{jute.OK, jute.OK, jute.ErrNotReadOnly, jute.ErrNotReadOnly, jute.ErrNotReadOnly, jute.OK, jute.OK}
	for i, r := range s.replies(cl, len(want)) {
		if r.Err != want[i] || r.Xid != int32(i+1) {
			t.Errorf("reply %d: xid %d, %v, want %v", i, r.Xid, r.Err, want[i])
		}
	}
}
