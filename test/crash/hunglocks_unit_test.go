package crash

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// TestReadLocks reads for how long two clients hold a lock in histories in which the second takes it after 6 s.
func TestReadLocks(t *testing.T) {
	const path = lockPrefix + "1"
	create := jute.CreateRequest{Path: path, Flags: jute.ModeEphemeral}
	look := jute.PathWatchRequest{Path: path}
	owned := func(session int64) []byte {
		g := jute.Stat{EphemeralOwner: session}
		return g.Append(nil)
	}
	type answer struct {
		at   int64 // ms
		op   jute.Op
		code jute.Code
		body []byte
	}
	for _, c := range []struct {
		name    string
		answers []answer // to the first holder
		both    time.Duration
		knows   bool
	}{
		{"not answered", nil, 0, false},
		{"answered before", []answer{{5000, jute.OpExists, jute.OK, owned(1)}}, 0, false},
		{"told that it holds the lock", []answer{{7500, jute.OpExists, jute.OK, owned(1)}}, 1500 * time.Millisecond, false},
		{"pings answered", []answer{{8000, jute.OpPing, jute.OK, nil}}, 2 * time.Second, false},
		{"told that another holds it", []answer{
			{6500, jute.OpPing, jute.OK, nil}, {7000, jute.OpExists, jute.OK, owned(2)}, {8000, jute.OpPing, jute.OK, nil},
		}, 500 * time.Millisecond, true},
		{"told that it is gone", []answer{
			{7000, jute.OpExists, jute.ErrNoNode, nil}, {8000, jute.OpPing, jute.OK, nil},
		}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h history.History
			ask := func(conn int32, at int64, op jute.Op, q []byte, code jute.Code, body []byte) {
				xid := int32(len(h.Events) + 1)
				if op == jute.OpPing {
					xid = jute.XidPing
				}
				h.Events = append(h.Events,
					history.Event{Kind: history.KindRequest, Conn: conn, Xid: xid, Num: int32(op), Body: q, Time: at * 1e6},
					history.Event{Kind: history.KindReply, Conn: conn, Xid: xid, Num: int32(code), Body: body, Time: at * 1e6})
			}
			for conn := range int32(2) {
				h.Events = append(h.Events, history.Event{Kind: history.KindConnected, Conn: conn, Session: int64(conn) + 1})
			}
			ask(0, 100, jute.OpCreate, create.Append(nil), jute.OK, nil)
			ask(1, 200, jute.OpCreate, create.Append(nil), jute.ErrNodeExists, nil)
			before := true
			for _, a := range append(c.answers, answer{at: 99999}) {
				if before && a.at > 6000 {
					before = false
					ask(1, 6000, jute.OpCreate, create.Append(nil), jute.OK, nil)
				}
				switch a.op {
				case jute.OpPing:
					ask(0, a.at, a.op, nil, a.code, a.body)
				case jute.OpExists:
					ask(0, a.at, a.op, look.Append(nil), a.code, a.body)
				}
			}
			l := readLocks(&h)[path]
			if l.taken != 6*time.Second || l.both != c.both || l.knows != c.knows {
				t.Errorf("taken at %v, held by both for %v, the first knows: %t; want 6s, %v, %t", l.taken, l.both, l.knows,
					c.both, c.knows)
			}
		})
	}
}
