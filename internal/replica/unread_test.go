package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// watcher returns a client that watches a subtree for ever.
func (s *diskShell) watcher(path string) *Client {
	s.t.Helper()
	c := s.client()
	r := jute.AddWatchRequest{Path: path, Mode: jute.AddWatchPersistentRecursive}
	if code := s.call(c, &pipeline{}, jute.OpAddWatch, r.Append)[0]; code != jute.OK {
		s.t.Fatalf("watch %s: %v", path, code)
	}
	return c
}

// events decodes notifications that a client has got.
func (s *diskShell) events(c *Client) (list []string) {
	for _, r := range s.repliesNow(c) {
		if r.Xid != jute.XidNotification {
			s.t.Errorf("a reply: %v", r.ReplyHeader)
			continue
		}
		var w jute.WatcherEvent
		w.Decode(jute.NewDecoder(r.body))
		list = append(list, fmt.Sprintf("%#x %v %s", r.Zxid, w.Type, w.Path))
	}
	return list
}

// TestEventsOfOneRequest: each watcher hears of a multi's events in their order and only of
// those that it may read, whoever else watches which of them.
func TestEventsOfOneRequest(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := &pipeline{}
	for _, path := range []string{"/turn/a", "/turn/b"} {
		s.call(c, raw, jute.OpCreate, creating(path, nil, 0))
	}
	secret := jute.CreateRequest{
		Path: "/turn/a/secret", ACL: []jute.ACL{{Perms: jute.PermWrite, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
	}
	s.call(c, raw, jute.OpCreate, secret.Append)
	all, onlyB := s.watcher("/turn"), s.watcher("/turn/b")
	var ops []jute.MultiOp
	var want, wantB []string
	for i := range 40 {
		path := [...]string{"/turn/a", "/turn/a/secret", "/turn/a", "/turn/b", "/turn/b", "/turn"}[i%6]
		ops = append(ops, jute.MultiOp{Op: jute.OpSetData, Path: path, Data: []byte("x"), Version: -1})
		event := fmt.Sprintf("%v %s", jute.EventNodeDataChanged, path)
		if path != "/turn/a/secret" {
			want = append(want, event)
		}
		if path == "/turn/b" {
			wantB = append(wantB, event)
		}
	}
	in := raw.request(nil, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
	s.send(c, in)
	zxid := s.replies(c, 1)[0].Zxid
	for _, who := range []struct {
		name string
		c    *Client
		want []string
	}{{"all", all, want}, {"only b", onlyB, wantB}} {
		for i := range who.want {
			who.want[i] = fmt.Sprintf("%#x %s", zxid, who.want[i])
		}
		if got := s.events(who.c); !slices.Equal(got, who.want) {
			t.Errorf("%s heard\n%s\nwant\n%s", who.name, strings.Join(got, "\n"), strings.Join(who.want, "\n"))
		}
	}
	if n := s.rep.unread.bytes.Load(); n != 0 {
		t.Errorf("%d bytes of notifications count as unread when all have read theirs", n)
	}
}

// TestRowsHaveOneSetOfReaders: an event joins a row only if whoever may hear of the row's first may hear of it. Under
// a policy that depends on the path, too.
func TestRowsHaveOneSetOfReaders(t *testing.T) {
	t.Parallel()
	open, closed := jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermWrite)
	for _, c := range []struct {
		path     string
		acl      []jute.ACL
		watchers []int64
		policy   bool
		joins    bool
	}{
		{"/a", open, []int64{1, 2}, false, true}, {"/a", open, []int64{1, 2}, true, true},
		{"/b", open, []int64{1, 2}, false, true}, {"/b", open, []int64{1, 2}, true, false},
		{"/a", closed, []int64{1, 2}, false, false}, {"/b", closed, []int64{1, 2}, false, false},
		{"/a", open, []int64{1}, false, false}, {"/a", open, []int64{2, 1}, false, false},
	} {
		w := row{events: 1}
		w.begin(&tree.Event{Path: "/a", ACL: open}, []int64{1, 2})
		if joins := w.continues(&tree.Event{Path: c.path, ACL: c.acl}, c.watchers, c.policy); joins != c.joins {
			t.Errorf("%+v: it joins: %t", c, joins)
		}
	}
}

// TestUnreadNotificationsAreBounded: clients that don't read what their watches fire lose
// their connections, those with most of it first, before all of it together takes more than
// its share of the memory; who reads loses nothing.
func TestUnreadNotificationsAreBounded(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := &pipeline{}
	const memoryLimit, name = 64 << 20, 100_000
	most := int64(memoryLimit / unreadShare)
	s.rep.AccountMemory(0, 0, memoryLimit)
	reader := s.watcher("/turn")
	var silent []*Client
	aborted := map[*Client]bool{}
	for range 8 {
		w := s.watcher("/turn")
		w.Socket = hooked{abort: func() { aborted[w] = true }}
		silent = append(silent, w)
	}
	long := "/turn/" + strings.Repeat("n", name)
	s.call(c, raw, jute.OpCreate, creating(long, nil, 0))
	s.events(reader)
	open := func() (n int) {
		for _, w := range silent {
			if w.Ending() == "" {
				n++
			}
		}
		return n
	}
	told := 0
	for range 60 { // 48 MB for the silent
		s.call(c, raw, jute.OpSetData, setting(long, []byte("x")))
		told += len(s.events(reader))
		if n := s.rep.unread.bytes.Load(); n > 2*most+name {
			t.Fatalf("%d bytes are unread, the bound is twice %d", n, most)
		}
	}
	if n := open(); n == len(silent) {
		t.Fatal("nobody was closed")
	}
	if told != 60 || reader.Ending() != "" {
		t.Errorf("the client that reads was told %d events of 60, and is closed: %q", told, reader.Ending())
	}
	// Between the looks at the account more may be unread than is kept for good.
	slow := s.watcher("/turn")
	for s.rep.unread.bytes.Load() <= most {
		s.call(c, raw, jute.OpSetData, setting(long, []byte("x")))
		s.events(reader)
	}
	s.rep.AccountMemory(0, 0, memoryLimit)
	if n := s.rep.unread.bytes.Load(); n > most {
		t.Errorf("%d bytes are unread after a look at the account; %d may be", n, most)
	}
	if slow.Ending() != "" && open() > 0 {
		t.Error("the client with least unread was closed before others")
	}
	if n := s.rep.meters.notificationsRefused.Value(); n == 0 {
		t.Error("no metric tells of it")
	}
	for w := range aborted {
		if w.Ending() == "" {
			t.Error("a connection was ended without a reason")
		}
	}
	for _, w := range append(silent, slow, reader, c) {
		if (w.Ending() != "") != aborted[w] && w != slow {
			t.Errorf("closed for %q, but its socket was ended: %t", w.Ending(), aborted[w])
		}
		s.rep.Disconnected(w)
	}
	if n := s.rep.unread.bytes.Load(); n != 0 {
		t.Errorf("%d bytes count as unread when nobody is connected", n)
	}
}

// BenchmarkEventsOfOneRequest is a multi of 5,000 sets that 150 clients hear of.
func BenchmarkEventsOfOneRequest(b *testing.B) {
	s, c := pipelined(b)
	raw := &pipeline{}
	var watchers []*Client
	for range 150 {
		watchers = append(watchers, s.watcher("/turn"))
	}
	ops := make([]jute.MultiOp, 5000)
	for i := range ops {
		ops[i] = jute.MultiOp{Op: jute.OpSetData, Path: "/turn", Data: []byte("x"), Version: -1}
	}
	multi := func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	for b.Loop() {
		s.call(c, raw, jute.OpMulti, multi)
		for _, w := range watchers {
			for out, _ := w.TakeOutput(nil); out != nil; out, _ = w.TakeOutput(out) {
			}
		}
	}
}

// TestRunsKeepNoLongNames: a connection keeps the name of a namespace only if metrics do.
func TestRunsKeepNoLongNames(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	run := &namespaceRun{}
	for _, length := range []int{metrics.KeyBytesMax, metrics.KeyBytesMax + 1} {
		name := strings.Repeat("n", length)
		run.add(s.rep.meters.writesIn, "/"+name+"/child", 1)
		run.add(s.rep.meters.writesIn, "/"+name, 1)
		if kept := run.name == name; kept != (length <= metrics.KeyBytesMax) || !kept && run.name != "" {
			t.Errorf("of a name of %d bytes %d are kept", length, len(run.name))
		}
	}
	s.rep.Disconnected(c)
}

// TestUnreadAreClosed: no connection is closed for its unread notifications while all together have no more than their
// share. Then those with most are, and of two with as much the older one, until a quarter of the share is free.
func TestUnreadAreClosed(t *testing.T) {
	t.Parallel()
	const limit = unreadShare * 1000
	for _, of := range []struct {
		unread []int
		closed []bool
	}{
		{[]int{500, 500, 0}, []bool{false, false, false}}, {[]int{500, 501, 0}, []bool{false, true, false}},
		{[]int{501, 501, 0}, []bool{true, false, false}}, {[]int{400, 601, 350}, []bool{false, true, false}},
		{[]int{400, 601, 351}, []bool{true, true, false}}, {[]int{0, 0, 1001}, []bool{false, false, true}},
	} {
		s := newStage(t, Options{})
		s.r.unread.limit.Store(limit)
		var all []*Client
		for _, n := range of.unread {
			c := s.session()
			c.out.events.waiting, c.out.events.taken = n-n/3, n/3
			s.r.unread.bytes.Add(int64(n))
			all = append(all, c)
		}
		s.r.relieve()
		for i, c := range all {
			if closed := c.Ending() != ""; closed != of.closed[i] {
				t.Errorf("of %v unread bytes, %d may be: connection %d is closed: %t", of.unread, limit/unreadShare, i, closed)
			}
		}
	}
	u := &unreadEvents{}
	if u.max() != unreadMaxDefault {
		t.Errorf("without a limit %d bytes may be unread", u.max())
	}
}

// TestTooMuchUnreadAtOnce: a connection that is to get more is closed at once if more than twice the share is unread.
func TestTooMuchUnreadAtOnce(t *testing.T) {
	t.Parallel()
	size := len(appendNotification(nil, 0, jute.EventNodeCreated, "/a"))
	for free, want := range map[int]int{size: 0, size - 1: 1, 0: 1, -1: 2} {
		s := newStage(t, Options{})
		s.r.unread.limit.Store(unreadShare * 10_000)
		s.r.unread.bytes.Store(int64(20_000 - free))
		all := []*Client{s.session(), s.session()}
		for _, c := range all {
			if _, err := s.receive(c, (&pipeline{}).request(nil, jute.OpExists, reading("/a", true))); err != nil {
				t.Fatal(err)
			}
		}
		s.write(s.session(), "/a", jute.ModePersistent)
		s.apply(s.forward()...)
		closed := 0
		for _, c := range all {
			if c.Ending() != "" {
				closed++
			}
		}
		told := int64(2-closed) * int64(size)
		if got := s.r.unread.bytes.Load(); closed != want || got != int64(20_000-free)+told {
			t.Errorf("with room for %d bytes, %d of two are closed that get %d each, want %d; %d bytes are unread", free, closed,
				size, want, got)
		}
		if n := s.r.meters.notificationsRefused.Value(); n != int64(want) {
			t.Errorf("%d are counted, want %d", n, want)
		}
	}
}

// TestUnreadOfOneRequest: the events of one request may be more than all clients together may leave unread. They are
// told in parts, so that what is unread stays within that bound and one part. Whoever doesn't read loses the
// connection.
func TestUnreadOfOneRequest(t *testing.T) {
	t.Parallel()
	const most = 2 * 100_000
	event := len(appendNotification(nil, 0, jute.EventNodeCreated, "/00000"))
	for parts, closed := range map[int]int{1: 0, 3: 2, 10: 3} {
		s := newStage(t, Options{})
		s.r.unread.limit.Store(unreadShare * most / 2)
		var watching []*Client
		for range 3 {
			c := s.session()
			watch := jute.AddWatchRequest{Path: "/", Mode: jute.AddWatchPersistentRecursive}
			if _, err := s.receive(c, (&pipeline{}).request(nil, jute.OpAddWatch, watch.Append)); err != nil {
				t.Fatal(err)
			}
			watching = append(watching, c)
		}
		events := make([]tree.Event, parts*(rowBytesMax/event+1))
		for i := range events {
			events[i] = tree.Event{Type: jute.EventNodeCreated, Path: fmt.Sprintf("/%05d", i)}
		}
		s.r.mu.Lock()
		s.r.fire(events, 1, s.r.now())
		s.r.mu.Unlock()
		if n := s.r.unread.bytes.Load(); n > most+rowBytesMax+int64(event) {
			t.Errorf("%d parts: %d bytes are unread, and %d may be", parts, n, most)
		}
		ended := 0
		for _, c := range watching {
			if c.Ending() != "" {
				ended++
			}
		}
		if ended != closed {
			t.Errorf("%d parts: %d connections are closed, want %d", parts, ended, closed)
		}
	}
}
