package check

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// A lateAnswer is a history of two clients. The first has a timeout of 6 s and holds a lock until another client,
// at 8 s, takes it. Meanwhile the first client sends a ping.
type lateAnswer struct {
	pinged, answered int64 // ms
	shown            string
}

// history writes what a journal would have recorded. The end of the session is shown by a watch's event, by a reply
// with a later zxid, by the servers' logs, or by a refusal to the session's own client.
func (a lateAnswer) history() *history.History {
	s := &historyBuilder{}
	session := func(conn int32, id int64, timeout int32) {
		s.add(history.Event{Kind: history.KindConnect, Conn: conn, Num: timeout})
		s.add(history.Event{Kind: history.KindConnected, Conn: conn, Session: id, Num: timeout})
	}
	session(0, 1, 6000)
	session(1, 5, 30000)
	s.create(0, 2, "/lock", "a", jute.ModeEphemeral)
	mine := jute.Stat{Czxid: 2, Mzxid: 2, Pzxid: 2, EphemeralOwner: 1, DataLength: 1}
	s.answer(1, s.ask(1, jute.OpExists, getData("/lock", a.shown == "event")), 2, jute.OK, mine.Append(nil))
	type step struct {
		at int64
		do func()
	}
	steps := []step{
		{a.pinged, func() {
			s.add(history.Event{Kind: history.KindRequest, Conn: 0, Xid: jute.XidPing, Num: int32(jute.OpPing)})
		}},
		{a.answered, func() { s.answer(0, jute.XidPing, 0, jute.OK, nil) }},
		{8000, func() {
			switch a.shown {
			case "event":
				s.tell(1, 3, jute.EventNodeDeleted, "/lock")
			case "logs", "reply":
				s.create(1, 4, "/lock", "b", jute.ModeEphemeral)
			case "refusal":
				s.add(history.Event{Kind: history.KindConnect, Conn: 2, Session: 1, Num: 6000})
				s.add(history.Event{Kind: history.KindConnected, Conn: 2})
			}
		}},
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, step := range steps {
		s.now = (step.at - 1) * 1e6
		step.do()
	}
	if a.shown == "logs" {
		var creates [][]byte
		for _, e := range s.h.Events {
			if e.Kind == history.KindRequest && e.Op() == jute.OpCreate {
				creates = append(creates, e.Body)
			}
		}
		s.h.Servers = []history.ServerLog{{Server: 1, Entries: []history.Entry{
			{Zxid: 2, Session: 1, Cnx: 1, Seq: 1, Xid: 1, Op: jute.OpCreate, Applied: true, Body: creates[0]},
			{Zxid: 3, Session: 1, Op: jute.OpCloseSession, Applied: true},
			{Zxid: 4, Session: 5, Cnx: 2, Seq: 2, Xid: 3, Op: jute.OpCreate, Applied: true, Body: creates[1]},
		}}}
	}
	return &s.h
}

func TestAnswersAfterEnd(t *testing.T) {
	prompt := Options{DeliveryMax: 100 * time.Millisecond}
	for _, c := range []struct {
		name string
		lateAnswer
		opt  Options
		late bool
	}{
		{"before the end", lateAnswer{1000, 1001, ""}, prompt, false},
		{"within the bound", lateAnswer{9800, 9900, ""}, prompt, false},
		{"asked before the end and answered within the bound", lateAnswer{1000, 9990, ""}, prompt, false},
		{"asked before the end and answered later", lateAnswer{1000, 10200, ""}, prompt, true},
		{"asked before the end and delivered later", lateAnswer{1000, 10200, ""}, Options{}, false},
		{"asked and answered after the bound", lateAnswer{10200, 10201, ""}, Options{}, true},
		{"asked and answered after the bound by Apache", lateAnswer{10200, 10201, ""}, Apache("3.9.5"), false},
		{"asked after the bound of a local session", lateAnswer{10200, 10201, ""}, Options{LocalSessions: true}, true},
	} {
		for _, shown := range []string{"event", "reply", "logs", "refusal"} {
			t.Run(c.name+", shown by "+shown, func(t *testing.T) {
				c.shown = shown
				h := c.history()
				r := Check(h, c.opt)
				late, others := slices.Contains(r.Rules(), X10), slices.ContainsFunc(r.Rules(),
					func(r Rule) bool { return r != X10 && r != S3 })
				if late != c.late || others {
					t.Errorf("late: %t, want %t", late, c.late)
					report(t, h, r)
				}
			})
		}
	}
}

// TestShortSessionsHaveASecond gives a session of one second its bound, which is a second.
func TestShortSessionsHaveASecond(t *testing.T) {
	for _, c := range []struct {
		sent int64 // ms after the end has been shown
		want []Rule
	}{{900, nil}, {1100, []Rule{X10}}} {
		s := &historyBuilder{}
		s.session(0, 1)
		s.now = 5e9
		s.add(history.Event{Kind: history.KindConnect, Conn: 2, Session: 1, Num: 1000})
		s.add(history.Event{Kind: history.KindConnected, Conn: 2})
		s.now += c.sent * 1e6
		s.add(history.Event{Kind: history.KindRequest, Conn: 0, Xid: jute.XidPing, Num: int32(jute.OpPing)})
		s.answer(0, jute.XidPing, 0, jute.OK, nil)
		if r := Check(&s.h, Options{}); !slices.Equal(r.Rules(), c.want) {
			t.Errorf("%d ms after the end: got %v, want %v", c.sent, r.Rules(), c.want)
			report(t, &s.h, r)
		}
	}
}
