package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestSnapshotDue: after snapCount changes, if the log has half as many bytes as the last snapshot; after some bytes of
// log alone; once if asked for.
func TestSnapshotDue(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		since, log, last, room int64
		due                    bool
	}{
		{2, 1000, 1000, 0, false}, {3, 500, 1000, 0, true}, {3, 499, 1000, 0, false}, {4, 0, 0, 0, true},
		{0, 1 << 40, 0, 0, true}, {0, 1<<40 - 1, 0, 0, false},
		{0, 1 << 20, 0, 10 << 20, true}, {0, 1<<20 - 1, 0, 10 << 20, false},
		{0, 10 << 20, 40 << 20, 10 << 20, true}, {0, 10<<20 - 1, 40 << 20, 10 << 20, false},
		{0, snapshotBytesMin, 0, 1, true}, {0, snapshotBytesMin - 1, 0, 1, false},
	} {
		rule := &snapshots{count: 3, bytes: 1 << 40, since: of.since, last: of.last}
		rule.room.Store(of.room)
		if got := rule.SnapshotDue(of.log); got != of.due {
			t.Errorf("%+v: it is due: %t", of, got)
		}
		rule.RequestSnapshot()
		if asked, again := rule.SnapshotDue(0), rule.SnapshotDue(0); !asked || again && (of.log > 0 || of.since < 3) {
			t.Errorf("%+v: it was asked for, and is due: %t, and once more: %t", of, asked, again)
		}
	}
}

// TestPressing: heartbeats and ends of sessions never wait.
func TestPressing(t *testing.T) {
	t.Parallel()
	for op, want := range map[jute.Op]bool{jute.OpPing: true, jute.OpCloseSession: true, jute.OpGetData: false, jute.OpAuth: false} {
		in := jute.AppendRequest(nil, 1, op, nil)
		if got := Pressing(in); got != want {
			t.Errorf("%v is pressing: %t", op, got)
		}
		if Pressing(in[:len(in)-1]) || Pressing(nil) {
			t.Errorf("a part of %v is pressing", op)
		}
	}
}

// TestRoomForOwners: owners that rest are forgotten once there are many, and a quarter more may come until the next
// attempt. If too many don't rest, there is none for a second.
func TestRoomForOwners(t *testing.T) {
	t.Parallel()
	var w owners
	now, set := int64(100e9), limit.Set{}
	set[limit.Requests] = 1
	for i := range ownersSweepMin {
		w.of(fmt.Sprint(i), now, nil)
	}
	if len(w.byName) != ownersSweepMin || w.memory() != w.bytes || w.bytes <= 0 {
		t.Fatalf("%d owners, %d bytes", len(w.byName), w.bytes)
	}
	one := w.bytes / ownersSweepMin
	w.byName["5"].clients = map[*Client]struct{}{{}: {}}
	w.byName["6"].sessions.Add(1)
	w.byName["7"].used.Use(now, 100, 0, &set)
	w.byName["8"].connects.Use(now, 100, 1)
	kept := w.of("another", now, nil)
	if len(w.byName) != 5 || kept == &w.rest || w.sweep != ownersSweepMin || w.swept != 0 {
		t.Errorf("%d owners of which four are in use, and one is new; the next attempt is at %d", len(w.byName), w.sweep)
	}
	if w.bytes < 4*one || w.bytes > 6*one {
		t.Errorf("five owners use %d bytes, one about %d", w.bytes, one)
	}
	for i := range 2 * ownersRestingMax {
		w.of(fmt.Sprint("busy", i), now, func(o *owner) { o.connects.Use(now, 100, 1) })
	}
	if w.of("last", now, nil) != &w.rest || w.swept != now {
		t.Errorf("of %d owners none rests, and there is room for one more", len(w.byName))
	}
	for _, o := range w.byName { // any order: each is independent
		o.connects = limit.Rate{}
	}
	if w.of("last", now+ownersSweepPause-1, nil) != &w.rest {
		t.Error("it tries again too early")
	}
	if w.of("last", now+ownersSweepPause, nil) == &w.rest {
		t.Error("it doesn't try again")
	}
}

// TestPacesByTimeout: how long a connection waits that owes time: as long as it owes, but a second or a quarter of its session's
// timeout at most, and then one request is taken.
func TestPacesByTimeout(t *testing.T) {
	t.Parallel()
	get := jute.AppendRequest(nil, 1, jute.OpGetData, nil)
	for _, of := range []struct {
		timeout int32
		longest time.Duration
	}{{400, 100 * time.Millisecond}, {4000, time.Second}, {40_000, time.Second}} {
		s := newStage(t, Options{})
		s.now = 100_000
		c := s.session()
		c.timeout = of.timeout
		var set limit.Set
		set[limit.Requests] = 10
		batch := readBatch{r: s.r, c: c, now: s.r.now()}
		c.limits.used.Use(batch.now, 100, 0, &set)
		owes, _ := c.limits.used.Owes(batch.now)
		longest := min(owes, of.longest.Nanoseconds())
		for _, after := range []int64{0, 1, longest - 1, longest, longest + 1, 2 * longest, 3 * longest} {
			batch.now = s.r.now() + after
			wait, one := batch.paced(get)
			// The wait begins anew with each request that is taken.
			if want := after%longest != 0 || after == 0; after < longest && (wait != want || one) {
				t.Errorf("timeout %d, after %d ns: wait %t, one %t", of.timeout, after, wait, one)
			}
			if after == longest && (wait || !one) {
				t.Errorf("timeout %d, after the longest pause: wait %t, one %t", of.timeout, wait, one)
			}
			if wait && c.Pause() > of.longest {
				t.Errorf("timeout %d: it pauses for %v", of.timeout, c.Pause())
			}
		}
		if wait, one := batch.paced(ping()); wait || !one {
			t.Errorf("timeout %d: a heartbeat: wait %t, one %t", of.timeout, wait, one)
		}
		c.mayReplace = true
		if wait, one := batch.paced(get); wait || one || c.reader.pacedSince != 0 {
			t.Errorf("the server's own client: wait %t, one %t", wait, one)
		}
	}
}

// TestSameReaders: consecutive events are told together if they have the same watchers, and the same may read them.
func TestSameReaders(t *testing.T) {
	t.Parallel()
	all, other := jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermRead)
	equal := slices.Clone(all)
	for _, of := range []struct {
		a, b []jute.ACL
		same bool
	}{
		{nil, nil, true}, {all, all, true}, {all, equal, true}, {all, other, false}, {all, nil, false}, {nil, all, false},
		{append(slices.Clone(all), other...), all, false},
	} {
		if got := sameACL(of.a, of.b); got != of.same {
			t.Errorf("%v and %v are the same: %t", of.a, of.b, got)
		}
	}
	var w row
	if w.continues(&tree.Event{}, nil, false) {
		t.Error("an event belongs to an empty row")
	}
	w.begin(&tree.Event{Path: "/a", ACL: all}, []int64{1, 2})
	w.events = 1
	for _, of := range []struct {
		path     string
		acl      []jute.ACL
		watchers []int64
		policy   bool
		want     bool
	}{
		{"/b", equal, []int64{1, 2}, false, true}, {"/b", equal, []int64{1, 2}, true, false}, {"/a", all, []int64{1, 2}, true, true},
		{"/a", all, []int64{1}, false, false}, {"/a", all, []int64{1, 3}, false, false}, {"/a", other, []int64{1, 2}, false, false},
	} {
		if got := w.continues(&tree.Event{Path: of.path, ACL: of.acl}, of.watchers, of.policy); got != of.want {
			t.Errorf("%+v belongs to the row: %t", of, got)
		}
	}
}

// TestLargeBufferIsTheBest: the smallest buffer that is large enough is taken, and none that is far too large.
func TestLargeBufferIsTheBest(t *testing.T) {
	t.Parallel()
	const k = outputKeepBytes
	for _, of := range []struct {
		n, want int // 0 for none
	}{{1, 2 * k}, {2 * k, 2 * k}, {2*k + 1, 3 * k}, {3*k + 1, 9 * k}, {9 * k, 9 * k}, {9*k + 1, 0}} {
		var l largeBuffers
		for _, size := range []int{9 * k, 3 * k, 2 * k, k} {
			l.put(make([]byte, 5, size))
		}
		if l.size != 14*k || len(l.free) != 3 {
			t.Fatalf("%d bytes are kept in %d buffers", l.size, len(l.free))
		}
		got := l.get(of.n)
		if cap(got) != of.want || len(got) != 0 || l.size != 14*k-of.want || l.used != (of.want > 0) {
			t.Errorf("for %d bytes a buffer of %d, %d are left; want %d", of.n, cap(got), l.size, of.want)
		}
	}
	var l largeBuffers
	l.put(make([]byte, 5*k))
	for n, want := range map[int]int{1: 0, k: 0, 5 * k / 4: 5 * k} {
		if got := l.get(n); cap(got) != want {
			t.Errorf("for %d bytes a buffer of %d, want %d", n, cap(got), want)
		}
	}
	l = largeBuffers{}
	l.put(make([]byte, largeKeptBytes-2*k))
	l.put(make([]byte, 2*k))
	l.put(make([]byte, k+1))
	if l.size != largeKeptBytes {
		t.Errorf("%d bytes are kept", l.size)
	}
	l.used = true
	if first, second := l.rest(), l.rest(); first != largeKeptBytes || second != 0 || len(l.free) != 0 {
		t.Errorf("after a use %d bytes are kept, and later %d", first, second)
	}
	if (*largeBuffers)(nil).get(1) != nil {
		t.Error("what keeps nothing has something")
	}
	(*largeBuffers)(nil).put(make([]byte, 2*k))
}

// TestForwardedIsChecked: what a leader doesn't take from a follower.
func TestForwardedIsChecked(t *testing.T) {
	t.Parallel()
	create := jute.CreateRequest{Path: "/a", ACL: jute.WorldACL(jute.PermAll)}
	for name, of := range map[string]struct {
		q     tree.Request
		cut   int
		taken bool
	}{
		"a create":        {tree.Request{Op: jute.OpCreate, Body: create.Append(nil)}, 0, true},
		"a part of one":   {tree.Request{Op: jute.OpCreate, Body: create.Append(nil)}, 1, false},
		"settings":        {tree.Request{Op: tree.OpSettings}, 0, false},
		"members":         {tree.Request{Op: tree.OpMembers}, 0, false},
		"a secret":        {tree.Request{Op: tree.OpSecret}, 0, false},
		"a change":        {tree.Request{Op: tree.OpChange}, 0, false},
		"a lineage":       {tree.Request{Op: tree.OpLineage}, 0, false},
		"no operation":    {tree.Request{Op: 99}, 0, false},
		"above the level": {tree.Request{Op: tree.OpReplace}, 0, false},
	} {
		s := newStage(t, Options{})
		record := tree.AppendRecord(nil, &of.q)
		err := s.r.Forwarded(record[:len(record)-of.cut])
		if (err == nil) != of.taken || len(s.forward()) > 0 != of.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreadableEntries: an entry that this program didn't write stops the server.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	for _, data := range [][]byte{{1}, make([]byte, proposals.DigestSize-1), make([]byte, proposals.DigestSize)} {
		s := newStage(t, Options{})
		err := s.r.Apply([]quorum.Entry{{Term: 1, Index: 2, Data: data}})
		if err == nil || !strings.Contains(err.Error(), "apply log entry 2 of term 1: ") ||
			!strings.Contains(err.Error(), stopsAtEntry) {
			t.Errorf("an entry of %d bytes: %v", len(data), err)
		}
		if short := len(data) < proposals.DigestSize; short != strings.Contains(err.Error(), "too few for its digest") {
			t.Errorf("an entry of %d bytes: %v", len(data), err)
		}
		if s.r.View().Index != 1 {
			t.Errorf("an entry of %d bytes was applied", len(data))
		}
	}
}

// TestDoubtfulDigest: an entry whose leader had another state makes this server doubt its own.
func TestDoubtfulDigest(t *testing.T) {
	t.Parallel()
	for _, wrong := range []uint64{0, 1} {
		s := newStage(t, Options{})
		index, _, digest := s.r.Position()
		data := proposals.AppendHead(nil, s.now, index, digest+wrong)
		if err := s.r.Apply([]quorum.Entry{{Term: 1, Index: 2, Data: data}}); err != nil {
			t.Fatal(err)
		}
		if doubtful := s.r.Doubtful(); doubtful != (wrong != 0) {
			t.Errorf("a digest that differs by %d: doubtful %t", wrong, doubtful)
		}
	}
}

// TestUnparsedMembership: a membership that can't be parsed is ignored, and looked at once.
func TestUnparsedMembership(t *testing.T) {
	t.Parallel()
	r := staging(t, "1:a", &tree.Request{Op: tree.OpMembers, Body: []byte("1:a 2:b")})
	wrong := errors.New("unparsed")
	r.outside.membership.Parse = func(string) ([]quorum.Member, error) { return nil, wrong }
	m, version := r.Membership(0)
	if m != nil || version == 0 {
		t.Errorf("the membership %+v of version %d", m, version)
	}
	if m, again := r.Membership(version); m != nil || again != version {
		t.Errorf("the membership %+v of version %d", m, again)
	}
	r.outside.membership.Parse = nil
	if m, version := r.Membership(0); m != nil || version != 0 {
		t.Errorf("without a parser, the membership %+v of version %d", m, version)
	}
}

// TestNamesMembers: entries that establish a membership are told from others.
func TestNamesMembers(t *testing.T) {
	t.Parallel()
	members := tree.Request{Op: tree.OpMembers, Body: []byte("1:a")}
	settings := tree.DefaultSettings()
	other := tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}
	for _, of := range []struct {
		requests []*tree.Request
		want     bool
	}{
		{[]*tree.Request{&members}, true}, {[]*tree.Request{&other}, false}, {[]*tree.Request{&other, &members}, true}, {nil, false},
	} {
		data := proposals.AppendHead(nil, 1, 0, 0)
		for _, q := range of.requests {
			data = tree.AppendRecord(data, q)
		}
		if got := NamesMembers(data); got != of.want {
			t.Errorf("%d requests: %t, want %t", len(of.requests), got, of.want)
		}
	}
	if NamesMembers(make([]byte, proposals.DigestSize-1)) || NamesMembers(nil) {
		t.Error("an entry without a head establishes a membership")
	}
}

// TestGoesFirst: a follower's records go ahead of others if all of them resume sessions.
func TestGoesFirst(t *testing.T) {
	t.Parallel()
	attach, create := tree.Request{Op: tree.OpAttach, Session: 5}, tree.Request{Op: jute.OpCreate}
	for _, of := range []struct {
		records []*tree.Request
		want    bool
	}{
		{nil, false}, {[]*tree.Request{&attach}, true}, {[]*tree.Request{&attach, &attach}, true}, {[]*tree.Request{&create}, false},
		{[]*tree.Request{&attach, &create}, false},
	} {
		var records []byte
		for _, q := range of.records {
			records = tree.AppendRecord(records, q)
		}
		if got := goesFirst(records); got != of.want {
			t.Errorf("of %d records: %t, want %t", len(of.records), got, of.want)
		}
	}
}
