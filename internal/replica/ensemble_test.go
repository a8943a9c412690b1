package replica

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

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
		"above the level": {tree.Request{Op: tree.OpRestore}, 0, false},
	} {
		s := newStage(t, Options{})
		record := tree.AppendRecord(nil, &of.q)
		err := s.r.Forwarded(record[:len(record)-of.cut])
		if (err == nil) != of.taken || len(s.forward()) > 0 != of.taken {
			t.Errorf("%s: %v", name, err)
		}
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
		{nil, false}, {[]*tree.Request{&attach}, true}, {[]*tree.Request{&attach, &attach}, true},
		{[]*tree.Request{&create}, false},
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

// TestDigestsOfEntries: an entry's digest is known as long as it is one of the last; one that differs is noticed.
func TestDigestsOfEntries(t *testing.T) {
	t.Parallel()
	var l loop
	l.digests.note(5, 50)
	l.digests.note(0, 7)
	for _, of := range []struct {
		index, digest uint64
		differs       bool
	}{{5, 50, false}, {5, 51, true}, {6, 50, false}, {5 + digestsKept, 51, false}, {0, 8, false}} {
		if got := l.digests.differs(of.index, of.digest); got != of.differs {
			t.Errorf("the digest %d of entry %d differs: %t", of.digest, of.index, got)
		}
	}
	for _, of := range []struct {
		index, digest uint64
		ok            bool
	}{{5, 50, true}, {5 + digestsKept, 0, false}, {6, 0, false}} {
		if digest, ok := l.DigestAt(of.index); ok != of.ok || ok && digest != of.digest {
			t.Errorf("the digest of entry %d is %d, %t", of.index, digest, ok)
		}
	}
	l.doubtful = true
	if first, second := l.Doubtful(), l.Doubtful(); !first || second {
		t.Errorf("doubtful %t, and then %t", first, second)
	}
}
