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
	if w.of("last", now, nil) != &w.rest || w.swept != now || len(w.byName) != w.sweep {
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

// TestOwnersInUse: the more owners are in use, the rarer are attempts to make room.
func TestOwnersInUse(t *testing.T) {
	t.Parallel()
	var w owners
	for i := range 2000 {
		w.hold(fmt.Sprint(i), 1)
	}
	if len(w.byName) != 2000 || w.sweep != 2440 { // 1000, 1250, 1562, 1952
		t.Errorf("%d owners in use; the next attempt is at %d", len(w.byName), w.sweep)
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

// TestLeaderOfASnapshot: a leader whose sessions came with a snapshot gives each its full timeout.
func TestLeaderOfASnapshot(t *testing.T) {
	t.Parallel()
	before := newStage(t, Options{})
	ids := []int64{before.begin(), before.begin(), before.begin()}
	s := newStage(t, Options{})
	s.now = 100_000
	s.r.tree, s.index = before.r.tree, before.index
	s.term = before.term + 1
	s.r.Lead(quorum.Leadership{Leader: 1, IsLeader: true, Term: s.term})
	for _, id := range ids {
		if !s.r.expiry.Tracks(id) {
			t.Errorf("session %#x never expires", id)
		}
	}
	list, _ := s.r.SessionExpiries(time.UnixMilli(s.now), 1000)
	for _, e := range list {
		if left := e.Expires.Sub(time.UnixMilli(s.now)); left < 10*time.Second || left > 11*time.Second {
			t.Errorf("a session of 10 s expires in %v", left)
		}
	}
}

// TestBreakdownIsDescribed: whoever looks into a panic is told of the entry, the state, and how far it was applied.
func TestBreakdownIsDescribed(t *testing.T) {
	t.Parallel()
	var told []string
	s := newStage(t, Options{
		Observe: func(res *tree.Result) {
			if res.Path == "/bad" {
				panic("planted")
			}
		},
		Panicked: func(e quorum.Entry, cause any, about string) error {
			told = append(told, fmt.Sprintf("%d %d %v", e.Index, e.Term, cause), about)
			return errors.New("reported")
		},
	})
	create := func(path string) []byte {
		q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
		return tree.AppendRecord(nil, &tree.Request{Op: jute.OpCreate, Body: q.Append(nil)})
	}
	s.apply(create("/fine"))
	data := append(proposals.AppendHead(nil, s.now, 0, 0), create("/good")...)
	err := s.r.Apply([]quorum.Entry{{Term: 1, Index: 3, Data: append(data, create("/bad")...)}})
	if err == nil || err.Error() != "reported" || len(told) != 2 || told[0] != "3 1 planted" || !s.r.Broken() {
		t.Fatalf("%v; told %q", err, told)
	}
	if want := "last zxid 0x100000003, state at entry 3 of term 1"; !strings.HasPrefix(told[1], want) {
		t.Errorf("it is described as %q, want %q", told[1], want)
	}
	if !strings.Contains(told[1], "\n   0: create") || !strings.Contains(told[1], "\n-> 1: create") {
		t.Errorf("which request failed isn't in %q", told[1])
	}
	s.r.Abandon()
}

// TestShortMemoryKeepsNoBuffers: while room is short, a connection with nothing to write keeps only small buffers.
func TestShortMemoryKeepsNoBuffers(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		short         bool
		frames, spare int
		kept          int
	}{
		{false, outputFreeBytes, 1, outputFreeBytes + 1}, {true, outputFreeBytes, 1, 0},
		{true, outputFreeBytes - 1, 1, outputFreeBytes}, {true, 0, outputFreeBytes + 1, 0},
	} {
		s := newStage(t, Options{})
		c, _ := s.idle()
		c.out.frames, c.out.spare, c.out.flushing = make([]byte, 0, of.frames), make([]byte, 0, of.spare), true
		if of.short {
			s.r.rooms.bound(unreadShare * 1000)
			s.r.rooms.replies.Holder("another", nil).Note(600)
		}
		if out, _ := c.TakeOutput(nil); out != nil || c.out.flushing {
			t.Errorf("%+v: %d bytes to write", of, len(out))
		}
		if kept := cap(c.out.frames) + cap(c.out.spare); kept != of.kept {
			t.Errorf("%+v: %d bytes are kept", of, kept)
		}
	}
}

// TestShares: replies and requests that aren't whole share an eighth of the memory each.
func TestShares(t *testing.T) {
	t.Parallel()
	var o rooms
	o.bound(unreadShare * 1000)
	for name, room := range map[string]interface{ Used() int64 }{"replies": &o.replies, "frames": &o.frames} {
		one, two := o.replies.Holder("a", nil), o.replies.Holder("b", nil)
		if name == "frames" {
			one, two = o.frames.Holder("a", nil), o.frames.Holder("b", nil)
		}
		if o.RoomAwaited() {
			t.Errorf("%s: nobody has asked, and somebody waits", name)
		}
		if one.Note(700); two.Grow(301) || !two.Grow(300) {
			t.Errorf("%s: of 1,000 bytes 700 are taken, and there is room for %d", name, room.Used()-700)
		}
		if two.Take(301) || !o.RoomAwaited() {
			t.Errorf("%s: nobody waits for room", name)
		}
		two.Leave()
	}
}

// TestNotedOutput: up to outputFreeBytes of output need no room.
func TestNotedOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	for n, want := range map[int]int64{0: 0, outputFreeBytes: 0, outputFreeBytes + 1: outputFreeBytes + 1, 1 << 20: 1 << 20} {
		c.out.frames, c.out.spare, c.out.taken, c.steps.promised = make([]byte, 0, n), nil, 0, 500
		if c.noteOutput(); c.out.held.Held() != want || c.steps.promised != 0 {
			t.Errorf("%d bytes of output are noted as %d", n, c.out.held.Held())
		}
	}
	c.steps.read, c.steps.promised = &longRead{scan: tree.Scan{Body: make([]byte, 0, 100)}}, 1000
	if c.noteOutput(); c.out.held.Held() != 1<<20+1100 && c.out.held.Held() != 0 && c.out.held.Held() != outputFreeBytes+1101 {
		t.Errorf("with a read, %d bytes are noted", c.out.held.Held())
	}
	c.out.frames = make([]byte, 0, 1<<20)
	if c.noteOutput(); c.out.held.Held() != 1<<20+1100 {
		t.Errorf("with a read, %d bytes are noted", c.out.held.Held())
	}
	for n, want := range map[int]int64{InputFreeBytes: 0, InputFreeBytes + 1: InputFreeBytes + 1} {
		if c.input.NoteInput(n); c.input.held.Held() != want || c.input.size.Load() != int64(n) {
			t.Errorf("%d bytes of input are noted as %d", n, c.input.held.Held())
		}
	}
}

// TestSmallBuffersNeedNoRoom: a buffer of requests of up to InputFreeBytes needs no room; while it is short, none gets
// larger than it must.
func TestSmallBuffersNeedNoRoom(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	s.r.rooms.bound(unreadShare * 100_000)
	s.r.rooms.frames.Holder("another", nil).Note(95_000)
	if !c.TakeFrame(InputFreeBytes) || c.TakeFrame(InputFreeBytes+1) {
		t.Error("a frame of InputFreeBytes waits, or a larger one doesn't")
	}
	if !c.MayBuffer(InputFreeBytes) || c.MayBuffer(InputFreeBytes+1) || !c.FramesShort() {
		t.Error("a buffer of InputFreeBytes may not be, or a larger one may")
	}
	free := &Client{}
	if !free.TakeFrame(1<<30) || !free.MayBuffer(1<<30) || free.FramesShort() {
		t.Error("a connection that isn't registered is bounded")
	}
}

// TestFrameTime: how long an unfinished request may take, and how many of its bytes have moved.
func TestFrameTime(t *testing.T) {
	t.Parallel()
	var f frame
	for _, of := range []struct {
		rest  []byte
		fresh bool
		now   int64
		moved uint64
		by    int64
	}{
		{[]byte{0, 0, 0}, true, 5, 3, 5 + frameTimeMin},
		{[]byte{0, 1, 0, 0, 9}, false, 7, 5, 5 + frameTimeMin},
		{[]byte{0, 4, 0, 0, 9, 9}, true, 8, 11, 8 + 16e9},
		{[]byte{0, 4, 0, 0, 9, 9, 9}, false, 9, 12, 8 + 16e9},
		{nil, false, 10, 12, 0}, {nil, true, 10, 12, 0},
		{[]byte{0, 0}, false, 11, 14, 11 + frameTimeMin},
	} {
		f.NoteFrame(of.rest, of.fresh, of.now)
		if f.moved.Load() != of.moved || f.by.Load() != of.by {
			t.Errorf("%+v: %d bytes have moved, it has time until %d", of, f.moved.Load(), f.by.Load())
		}
		if late := f.isLate(of.by); late || of.by != 0 && !f.isLate(of.by+1) {
			t.Errorf("%+v: it is late at its time, or isn't after it", of)
		}
	}
	for _, of := range []struct {
		in      []byte
		arrived bool
	}{{[]byte{0, 0, 0}, false}, {[]byte{0, 0, 0, 2, 1}, false}, {[]byte{0, 0, 0, 2, 1, 1}, true}, {[]byte{0, 0, 0, 0}, true}} {
		f.by.Store(5)
		if f.FrameArrived(of.in); (f.by.Load() == 0) != of.arrived {
			t.Errorf("% x is whole: %t", of.in, f.by.Load() == 0)
		}
	}
}

// TestFewGoneNewcomers: a few that give up aren't worth a look at all that wait.
func TestFewGoneNewcomers(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for range beginningMax + 1 {
		s.from("10.0.0.1")
	}
	for n := range beginningMax + 2 {
		if got := s.r.newcomers.gone; got != n {
			t.Fatalf("%d of those that wait are gone, %d are counted", n, got)
		}
		s.r.Disconnected(s.from("10.0.1.1"))
	}
	s.r.Disconnected(s.from("10.0.1.1"))
	if got := s.r.newcomers.gone; got > 1 || len(s.r.newcomers.queues) > 2 {
		t.Errorf("%d that are gone are kept in %d queues", got, len(s.r.newcomers.queues))
	}
}

// TestAnnouncedAgain: what a member announces again is the same, and anything else isn't.
func TestAnnouncedAgain(t *testing.T) {
	t.Parallel()
	a := announced{id: 2, heard: true, rules: rulesOf("team=glob")}
	for _, of := range []struct {
		b    announced
		same bool
	}{
		{announced{2, true, rulesOf("team=glob")}, true}, {announced{3, true, rulesOf("team=glob")}, false},
		{announced{2, false, rulesOf("team=glob")}, false}, {announced{2, true, nil}, false},
	} {
		if a.equal(of.b) != of.same {
			t.Errorf("%+v is the same: %t", of.b, !of.same)
		}
	}
}

// TestSyncsOfTheGone: syncs of clients that are gone are dropped once they are more than half of all, or when their turn
// comes.
func TestSyncsOfTheGone(t *testing.T) {
	t.Parallel()
	var s syncs
	stays, goes, late := &Client{}, &Client{}, &Client{}
	if s.take() != 0 {
		t.Error("there is a sync before one was asked for")
	}
	for i, c := range []*Client{stays, goes, stays, goes, late} {
		if n := s.ask(c, i == 4); n != uint64(i+1) {
			t.Errorf("sync %d has the number %d", i+1, n)
		}
	}
	if first, again := s.take(), s.take(); first != 5 || again != 0 {
		t.Errorf("the last sync is %d, and once more %d", first, again)
	}
	if s.forget(goes); len(s.waiting) != 5 || s.dead != 2 {
		t.Errorf("two of five are gone: %d wait, %d are dead", len(s.waiting), s.dead)
	}
	if ready := s.done(2); len(ready) != 1 || ready[0].c != stays || s.dead != 1 || len(s.waiting) != 3 {
		t.Errorf("of the first two %d are ready; %d wait, %d are dead", len(ready), len(s.waiting), s.dead)
	}
	if s.forget(late); len(s.waiting) != 1 || s.dead != 0 {
		t.Errorf("two of three are gone: %d wait, %d are dead", len(s.waiting), s.dead)
	}
	if s.forget(stays); s.waiting != nil {
		t.Errorf("all are gone, and %d wait", len(s.waiting))
	}
}

// TestReadWork: what a read counts as, by its request, its reply, and the identities of its client.
func TestReadWork(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	for _, of := range []struct{ request, reply, ids, want int }{
		{0, 0, 1, 256 + 16}, {10, 0, 1, 256 + 80 + 16}, {0, 1000, 1, 1256 + 16}, {1, 1, 3, 256 + 8 + 1 + 48},
	} {
		ids := make([]jute.ID, of.ids)
		c.Identify(ids)
		if got := s.r.reads.readWork(c, of.request, of.reply); got != of.want {
			t.Errorf("%+v: %d", of, got)
		}
	}
	rules := rulesOf("team=glob")
	s.r.levels.rules.Store(&rules)
	c.Identify([]jute.ID{{Scheme: "team", ID: "a"}, {Scheme: "digest", ID: "b"}})
	if got := s.r.reads.readWork(c, 0, 0); got != 256+2*16+1024 {
		t.Errorf("with an identity that a rule is asked about: %d", got)
	}
}

// TestIsLong: which reads that wait for a write are done in steps.
func TestIsLong(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, raw := s.session(), &pipeline{}
	for _, n := range []int{longReadZnodes, longReadZnodes + 1} {
		parent := fmt.Sprintf("/%d", n)
		s.sends(c, raw, jute.OpCreate, creating(parent, nil, 0))
		for made := 0; made < n; {
			var ops []jute.MultiOp
			for ; made < n && len(ops) < 500; made++ {
				ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprint(parent, "/", made), ACL: jute.WorldACL(jute.PermAll)})
			}
			s.sends(c, raw, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
		}
	}
	list := func(n int) []byte { return reading(fmt.Sprintf("/%d", n), false)(nil) }
	for _, of := range []struct {
		name string
		op   jute.Op
		body []byte
		want bool
	}{
		{"few children", jute.OpGetChildren, list(longReadZnodes), false},
		{"many children", jute.OpGetChildren, list(longReadZnodes + 1), true},
		{"few children with a Stat", jute.OpGetChildren2, list(longReadZnodes), false},
		{"many children with a Stat", jute.OpGetChildren2, list(longReadZnodes + 1), true},
		{"ephemerals", jute.OpGetEphemerals, reading("/", false)(nil), true},
		{"watches", jute.OpSetWatches, nil, true}, {"watches of five kinds", jute.OpSetWatches2, nil, true},
		{"a short multiRead", jute.OpMultiRead, make([]byte, longReadInput), false},
		{"a long multiRead", jute.OpMultiRead, make([]byte, longReadInput+1), true},
		{"an ACL", jute.OpGetACL, reading("/", false)(nil), false}, {"data", jute.OpGetData, reading("/", false)(nil), false},
		{"a ping", jute.OpPing, nil, false}, {"a refusal", jute.OpError, nil, false},
	} {
		if got := s.r.reads.isLong(c, of.op, of.body); got != of.want {
			t.Errorf("%s: long %t", of.name, got)
		}
	}
	// Of many that wait, those beyond the work of one step.
	exists := reading("/", false)(nil)
	work := s.r.reads.readWork(c, len(exists), s.r.tree.ReadWork(jute.OpExists, "/", c.session))
	c.unanswered.reads = queuedReadsMax - 1
	if s.r.reads.isLong(c, jute.OpExists, exists) || c.unanswered.work != 0 {
		t.Error("with few reads that wait, their work counts")
	}
	c.unanswered.reads = queuedReadsMax
	c.unanswered.work = readWorkMax - work
	if s.r.reads.isLong(c, jute.OpExists, exists) || c.unanswered.work != readWorkMax {
		t.Errorf("with as much work as one step may do: %d", c.unanswered.work)
	}
	if !s.r.reads.isLong(c, jute.OpExists, exists) {
		t.Error("with more work than one step may do, a read isn't long")
	}
}
