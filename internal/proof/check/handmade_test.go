package check

import (
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// A historyBuilder writes histories by hand, one event per line.
type historyBuilder struct {
	h   history.History
	xid int32
	now int64 // time of the last event
}

func (s *historyBuilder) add(e history.Event) *historyBuilder {
	s.now += 1e6
	e.Time = s.now
	s.h.Events = append(s.h.Events, e)
	return s
}

func (s *historyBuilder) session(conn int32, id int64) *historyBuilder {
	s.add(history.Event{Kind: history.KindConnect, Conn: conn, Num: 1000})
	return s.add(history.Event{Kind: history.KindConnected, Conn: conn, Session: id, Num: 1000})
}

func (s *historyBuilder) ask(conn int32, op jute.Op, body []byte) int32 {
	s.xid++
	s.add(history.Event{Kind: history.KindRequest, Conn: conn, Xid: s.xid, Num: int32(op), Body: body})
	return s.xid
}

func (s *historyBuilder) answer(conn, xid int32, zxid int64, code jute.Code, body []byte) *historyBuilder {
	return s.add(history.Event{Kind: history.KindReply, Conn: conn, Xid: xid, Zxid: zxid, Num: int32(code), Body: body})
}

func (s *historyBuilder) tell(conn int32, zxid int64, typ jute.EventType, path string) *historyBuilder {
	w := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return s.add(history.Event{Kind: history.KindNotification, Conn: conn, Zxid: zxid, Body: w.Append(nil)})
}

func (s *historyBuilder) create(conn int32, zxid int64, path, data string, mode jute.CreateMode) *historyBuilder {
	q := jute.CreateRequest{Path: path, Data: []byte(data), ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	return s.answer(conn, s.ask(conn, jute.OpCreate, q.Append(nil)), zxid, jute.OK, jute.AppendString(nil, path))
}

func (s *historyBuilder) container(conn int32, zxid int64, path string) *historyBuilder {
	q := jute.CreateRequest{Path: path, Data: []byte{}, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeContainer}
	g := jute.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid}
	return s.answer(conn, s.ask(conn, jute.OpCreateContainer, q.Append(nil)), zxid, jute.OK,
		g.Append(jute.AppendString(nil, path)))
}

func getData(path string, watch bool) []byte {
	q := jute.PathWatchRequest{Path: path, Watch: watch}
	return q.Append(nil)
}

func setData(path, data string) []byte {
	q := jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
	return q.Append(nil)
}

func dataReply(data string, g jute.Stat) []byte {
	g.DataLength = int32(len(data))
	return g.Append(jute.AppendBuffer(nil, []byte(data)))
}

func TestHandMadeHistories(t *testing.T) {
	fresh := jute.Stat{Czxid: 2, Mzxid: 2, Pzxid: 2}
	set := jute.Stat{Czxid: 2, Mzxid: 3, Pzxid: 2, Version: 1, DataLength: 1}
	ahead := func(s *historyBuilder) {
		s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
		s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
		s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 2, jute.OK, dataReply("y", set))
		s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 3, jute.OK, dataReply("y", set))
	}
	reader := func(s *historyBuilder) {
		s.session(0, 1).session(1, 5).create(1, 2, "/a", "x", 0)
		s.answer(0, s.ask(0, jute.OpGetData, getData("/a", false)), 2, jute.OK, dataReply("x", fresh))
		s.answer(0, s.ask(0, jute.OpCloseSession, nil), 2, jute.OK, nil)
	}
	resume := func(s *historyBuilder, timeout int32) {
		session := int64(1)
		s.add(history.Event{Kind: history.KindDisconnect, Conn: 0})
		s.add(history.Event{Kind: history.KindConnect, Conn: 2, Session: session, Num: 1000, Zxid: 2})
		if timeout == 0 {
			session = 0
		}
		s.add(history.Event{Kind: history.KindConnected, Conn: 2, Session: session, Num: timeout})
	}
	refused := func(s *historyBuilder) {
		s.session(0, 1)
		resume(s, 0)
	}
	for _, c := range []struct {
		name  string
		write func(s *historyBuilder)
		want  []Rule
		opt   Options

		undecided int
	}{
		{"write and read", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", 0)
			s.answer(0, s.ask(0, jute.OpGetData, getData("/a", false)), 2, jute.OK, dataReply("x", fresh))
		}, nil, Options{}, 0},
		{"a reader behind sees the past at the zxid of the past", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 2, jute.OK, dataReply("x", fresh))
		}, nil, Options{}, 0},
		{"the past at the zxid of the present", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 3, jute.OK, dataReply("x", fresh))
		}, []Rule{X1}, Options{}, 0},
		{"an event that an unanswered setACL kept from its watcher, without zxids", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).session(2, 6).create(0, 2, "/a", "x", 0).create(0, 3, "/b", "x", 0)
			b := jute.Stat{Czxid: 3, Mzxid: 3, Pzxid: 3}
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", true)), 3, jute.OK, dataReply("x", fresh))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/b", true)), 3, jute.OK, dataReply("x", b))
			s.create(2, 4, "/c", "x", 0)
			hide := jute.SetACLRequest{Path: "/a", ACL: jute.WorldACL(jute.PermAll &^ jute.PermRead), Version: -1}
			s.ask(2, jute.OpSetACL, hide.Append(nil)) // at zxid 5
			s.add(history.Event{Kind: history.KindDisconnect, Conn: 2})
			gone := jute.PathVersionRequest{Path: "/a", Version: -1}
			s.answer(0, s.ask(0, jute.OpDelete, gone.Append(nil)), 6, jute.OK, nil)
			b.Mzxid, b.Version, b.DataLength = 7, 1, 1
			s.answer(0, s.ask(0, jute.OpSetData, setData("/b", "y")), 7, jute.OK, b.Append(nil))
			s.tell(1, -1, jute.EventNodeDataChanged, "/b")
		}, nil, Options{NotificationsUnnumbered: true}, 0},
		{"two events in the wrong order, without zxids", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0).create(0, 3, "/b", "x", 0)
			b := jute.Stat{Czxid: 3, Mzxid: 3, Pzxid: 3}
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", true)), 3, jute.OK, dataReply("x", fresh))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/b", true)), 3, jute.OK, dataReply("x", b))
			gone := jute.PathVersionRequest{Path: "/a", Version: -1}
			s.answer(0, s.ask(0, jute.OpDelete, gone.Append(nil)), 6, jute.OK, nil)
			b.Mzxid, b.Version, b.DataLength = 7, 1, 1
			s.answer(0, s.ask(0, jute.OpSetData, setData("/b", "y")), 7, jute.OK, b.Append(nil))
			s.tell(1, -1, jute.EventNodeDataChanged, "/b").tell(1, -1, jute.EventNodeDeleted, "/a")
		}, []Rule{W2}, Options{NotificationsUnnumbered: true}, 0},
		{"an unanswered write happened", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.ask(0, jute.OpSetData, setData("/a", "y"))
			s.add(history.Event{Kind: history.KindDisconnect, Conn: 0})
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("y", set))
		}, nil, Options{}, 0},
		{"an unanswered write didn't happen", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.ask(0, jute.OpSetData, setData("/a", "y"))
			s.add(history.Event{Kind: history.KindDisconnect, Conn: 0})
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("x", fresh))
		}, nil, Options{}, 0},
		{"a write nobody sent", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("z", set))
		}, []Rule{X1}, Options{}, 0},
		{"a write applied twice", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
			again := set
			again.Mzxid, again.Version = 4, 2
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("y", again))
		}, []Rule{Twice}, Options{}, 0},
		{"a later write happened, an earlier one of the connection didn't", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0).create(0, 3, "/b", "x", 0)
			s.ask(0, jute.OpSetData, setData("/a", "y"))
			s.ask(0, jute.OpSetData, setData("/b", "z"))
			s.add(history.Event{Kind: history.KindDisconnect, Conn: 0})
			b := jute.Stat{Czxid: 3, Mzxid: 5, Pzxid: 3, Version: 1}
			s.answer(1, s.ask(1, jute.OpGetData, getData("/b", false)), 9, jute.OK, dataReply("z", b))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("x", fresh))
		}, []Rule{FIFO}, Options{}, 0},
		{"the event before the reply", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", true)), 2, jute.OK, dataReply("x", fresh))
			s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
			s.tell(1, 3, jute.EventNodeDataChanged, "/a")
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 3, jute.OK, dataReply("y", set))
		}, nil, Options{}, 0},
		{"the event after the reply", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", 0)
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", true)), 2, jute.OK, dataReply("x", fresh))
			s.answer(0, s.ask(0, jute.OpSetData, setData("/a", "y")), 3, jute.OK, set.Append(nil))
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 3, jute.OK, dataReply("y", set))
			s.tell(1, 3, jute.EventNodeDataChanged, "/a")
		}, []Rule{X4}, Options{}, 0},
		{"the servers reap a container deep below", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", 0).create(0, 3, "/a/b", "x", 0).container(0, 4, "/a/b/c")
			s.create(0, 5, "/a/d", "x", 0)
			s.answer(0, s.ask(0, jute.OpGetAllChildrenNumber, jute.AppendString(nil, "/a")), 9, jute.OK, jute.AppendInt(nil, 2))
		}, nil, Options{}, 1},
		{"the servers reap two containers before anybody looks", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", 0).container(0, 3, "/a/b").container(0, 4, "/a/c")
			g := jute.Stat{Czxid: 2, Mzxid: 2, Pzxid: 9, Cversion: 4}
			s.answer(0, s.ask(0, jute.OpGetData, getData("/a", false)), 9, jute.OK, dataReply("x", g))
		}, nil, Options{}, 0},
		{"more is gone than the servers can have reaped", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", 0).create(0, 3, "/a/b", "x", 0).container(0, 4, "/a/b/c")
			s.create(0, 5, "/a/d", "x", 0)
			s.answer(0, s.ask(0, jute.OpGetAllChildrenNumber, jute.AppendString(nil, "/a")), 9, jute.OK, jute.AppendInt(nil, 1))
		}, []Rule{X1}, Options{}, 0},
		{"an order against real time", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 7, "/a", "x", 0).create(1, 6, "/b", "x", 0)
		}, []Rule{RealTime}, Options{}, 0},
		{"an ephemeral outlives its closed session", func(s *historyBuilder) {
			s.session(0, 1).session(1, 5).create(0, 2, "/a", "x", jute.ModeEphemeral)
			s.answer(0, s.ask(0, jute.OpCloseSession, nil), 3, jute.OK, nil)
			mine := fresh
			mine.EphemeralOwner = 1
			s.answer(1, s.ask(1, jute.OpGetData, getData("/a", false)), 3, jute.OK, dataReply("x", mine))
		}, []Rule{X8}, Options{}, 0},
		{"a read that shows more than its zxid says", ahead, []Rule{X1}, Options{}, 0},
		{"a read that shows more than its zxid says, from Apache", ahead, nil, Options{ReadWindow: true}, 0},
		{"a stale read of what is not covered", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/other", "x", 0)
			s.answer(0, s.ask(0, jute.OpGetData, getData("/other", false)), 2, jute.OK, dataReply("y", set))
		}, nil, Options{Under: "/a"}, 0},
		{"a session that only reads is closed", reader, []Rule{X5, RealTime}, Options{}, 0},
		{"a local session that only reads is closed", reader, nil, Options{LocalSessions: true}, 0},
		{"a local session of an empty ensemble is closed", func(s *historyBuilder) {
			s.session(0, 1).answer(0, s.ask(0, jute.OpCloseSession, nil), 0, jute.OK, nil)
		}, nil, Options{LocalSessions: true}, 0},
		{"a session of an empty ensemble is closed without a zxid", func(s *historyBuilder) {
			s.session(0, 1).answer(0, s.ask(0, jute.OpCloseSession, nil), 0, jute.OK, nil)
		}, []Rule{X2}, Options{}, 0},
		{"a session is refused by another server at once", refused, []Rule{S3}, Options{}, 0},
		{"a local session is refused by another server at once", refused, nil, Options{LocalSessions: true}, 0},
		{"a local session that has written is refused at once", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", 0)
			resume(s, 0)
		}, []Rule{S3}, Options{LocalSessions: true}, 0},
		{"a local session that was closed is resumed", func(s *historyBuilder) {
			reader(s)
			resume(s, 1000)
		}, []Rule{S2}, Options{LocalSessions: true}, 0},
		{"a local session's ephemeral", func(s *historyBuilder) {
			s.session(0, 1).create(0, 2, "/a", "x", jute.ModeEphemeral)
		}, []Rule{Result}, Options{LocalSessions: true, EphemeralsRefused: true}, 0},
		{"a local session gets no ephemeral", func(s *historyBuilder) {
			q := jute.CreateRequest{Path: "/a", ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral}
			s.session(0, 1).answer(0, s.ask(0, jute.OpCreate, q.Append(nil)), 2, jute.ErrEphemeralOnLocalSession, nil)
		}, nil, Options{LocalSessions: true, EphemeralsRefused: true}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &historyBuilder{}
			c.write(s)
			r := Check(&s.h, c.opt)
			if !slices.Equal(r.Rules(), c.want) || r.Undecided != c.undecided {
				t.Errorf("got %v, want %v", r.Rules(), c.want)
				report(t, &s.h, r)
			}
		})
	}
}
