package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/serverid"
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

// TestSnapshotBecomesTheState: a server that was behind goes on from a snapshot as if it had applied the entries. It
// has the limits, sizes, digest and sessions of the snapshot, and none of its former ones. Each session has its full
// timeout. Clients reconnect.
func TestSnapshotBecomesTheState(t *testing.T) {
	t.Parallel()
	ahead := newStage(t, Options{})
	const sessions = 3
	for range sessions - 1 {
		ahead.begin()
	}
	ahead.write(ahead.session(), "/e", jute.ModeEphemeral)
	ahead.apply(ahead.forward()...)
	asSuper := func(q tree.Request) {
		q.Identities = asSuper()
		ahead.apply(tree.AppendRecord(nil, &q))
	}
	settings := tree.DefaultSettings()
	settings.FeatureLevel = 3
	asSuper(tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)})
	asSuper(tree.Request{Op: tree.OpLineage, Body: tree.AppendLineage(nil, 7)})
	place := limit.Place{Scope: limit.Address}
	asSuper(tree.Request{Op: jute.OpCreate, Body: creating(limit.Root, nil, 0)(nil)})
	asSuper(tree.Request{Op: jute.OpCreate, Body: creating(place.Znode(), []byte("watches=77"), 0)(nil)})
	asSuper(tree.Request{Op: tree.OpMembers, Body: []byte("server.1=a:1:2")})

	s := newStage(t, Options{})
	s.ids = serverid.NewIDs(1, 2_000_000)
	former := s.session()
	s.now = 100_000
	s.r.become(ahead.r.tree)
	if former.Ending() == "" || s.r.expiry.Tracks(former.session) {
		t.Errorf("a client from before stays connected (%q), or its session is awaited", former.Ending())
	}
	if n := s.r.Limits()[limit.Address][limit.Watches]; n != 77 {
		t.Errorf("the limit in force is %d", n)
	}
	z, e := s.r.limiter.sizes.Znodes.Load(), s.r.limiter.sizes.Ephemerals.Load()
	if z != int64(ahead.r.tree.NodeCount()) || e != 1 {
		t.Errorf("the sizes are of %d znodes, %d of which are ephemeral", z, e)
	}
	if v := s.r.members.version.Load(); v == 0 || v != ahead.r.members.version.Load() {
		t.Errorf("the membership is of version %d", v)
	}
	if level, _ := s.r.Levels(); level != 3 || s.r.Lineage() != 7 {
		t.Errorf("the level in force is %d, the lineage %d", level, s.r.Lineage())
	}
	index, _, digest := s.r.Position()
	if got, ok := s.r.loop.DigestAt(index); !ok || got != digest || index != ahead.index {
		t.Errorf("after entry %d the digest is %x, %t", index, got, ok)
	}
	list, _ := s.r.SessionExpiries(time.UnixMilli(s.now), 1000)
	if len(list) != sessions || s.r.expiry.Tracked() != sessions {
		t.Errorf("%d sessions expire, and %d are awaited; want %d", len(list), s.r.expiry.Tracked(), sessions)
	}
	for _, of := range list {
		if left := of.Expires.Sub(time.UnixMilli(s.now)); left < 10*time.Second || left > 11*time.Second {
			t.Errorf("a session of 10 s expires in %v", left)
		}
	}
}
