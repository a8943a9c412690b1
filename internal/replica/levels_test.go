package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestNothingAboveTheLevelIsLogged refuses operations that some member's version
// doesn't know, of clients and of followers, and what only a leader may propose.
func TestNothingAboveTheLevelIsLogged(t *testing.T) {
	t.Parallel()
	var r Replica
	for _, test := range []struct {
		op            jute.Op
		first, second bool // in force at level 1, at level 2
		forwarded     bool
	}{
		{jute.OpCreate, true, true, true},
		{tree.OpEnter, true, true, true},
		{tree.OpSecret, false, true, false},
		{tree.OpSettings, true, true, false},
		{tree.OpMembers, true, true, false},
		{tree.OpLineage, false, false, false},
		{tree.OpRestore, false, false, true}, // replaced by an operation that is refused: see withoutNewer
		{7777, false, false, false},
	} {
		r.levels.level.Store(1)
		if got := r.levels.InForce(test.op, nil); got != test.first {
			t.Errorf("operation %d is in force at level 1: %t", test.op, got)
		}
		r.levels.level.Store(2)
		if got := r.levels.InForce(test.op, nil); got != test.second {
			t.Errorf("operation %d is in force at level 2: %t", test.op, got)
		}
		if got := r.levels.forwardable(&tree.Request{Op: test.op}) == nil; got != test.forwarded {
			t.Errorf("a follower may forward operation %d: %t", test.op, got)
		}
	}
}

// TestOlderFollowersPolicy takes what a follower forwards that admits a policy and a restore below their
// level. At that level they are logged as they came. Below it the log gets an operation that every
// version refuses, at their place, and what came with them.
func TestOlderFollowersPolicy(t *testing.T) {
	t.Parallel()
	for level, want := range map[int32][]jute.Op{
		2: {jute.OpCreate, opNever, jute.OpDelete, opNever, opNever},
		3: {jute.OpCreate, jute.OpCreate, jute.OpDelete, jute.OpMulti, tree.OpRestore},
	} {
		s := newStage(t, Options{})
		settings := tree.DefaultSettings()
		settings.FeatureLevel = level
		s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}))
		s.lead(1)
		for len(s.r.Forward()) > 0 { // settings
		}
		follower := tree.Request{Session: 5, Cnx: 6, Identities: []jute.ID{{Scheme: "super"}}}
		var records []byte
		for i, q := range []tree.Request{
			{Op: jute.OpCreate, Body: creating("/other", nil, 0)(nil)},
			{Op: jute.OpCreate, Body: creating(policy.Path, nil, 0)(nil)},
			{Op: jute.OpDelete, Body: deleting(policy.Path)(nil)},
			{Op: jute.OpMulti, Body: jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpSetData, Path: policy.Path}})},
			{Op: tree.OpRestore},
		} {
			follower.Op, follower.Body, follower.Seq, follower.Xid = q.Op, q.Body, int64(i+1), int32(i+1)
			if i == 0 {
				records = tree.AppendRecord(records, &follower)
			} else {
				records = tree.AppendNextRecord(records, &follower)
			}
		}
		if err := s.r.Forwarded(records); err != nil {
			t.Fatal(err)
		}
		b, _ := s.r.proposals.Take()
		var got []jute.Op
		batch := tree.RecordsOf(b[proposals.HeadSize:])
		for q := (tree.Request{}); batch.Next(&q); {
			got = append(got, q.Op)
			if n := int64(len(got)); q.Seq != n || q.Xid != int32(n) || q.Session != 5 || q.Cnx != 6 || len(q.Identities) != 1 {
				t.Errorf("level %d: request %d became %+v", level, n, q)
			}
		}
		if err := batch.Err(); err != nil || !slices.Equal(got, want) {
			t.Errorf("level %d: the log gets %v (%v), want %v", level, fmt.Sprint(got), err, want)
		}
	}
}

// TestPolicyNeedsItsLevel refuses a client that sets a policy while a member may not know policies,
// and takes it afterwards.
func TestPolicyNeedsItsLevel(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	s.want(c, 1, true)
	raw := pipeline{}
	set := raw.request(nil, jute.OpCreate, creating(policy.Path, []byte("deny read below /a"), 0))
	for level, sent := range map[int32]int{2: 0, 3: 1} {
		s.r.levels.level.Store(uint32(level))
		if _, err := s.receive(c, set); err != nil {
			t.Fatal(err)
		}
		if got := len(s.forward()); got != sent {
			t.Errorf("level %d: %d requests go to the leader, want %d", level, got, sent)
		}
	}
}

// TestLineageIsProposed: a leader proposes a lineage once the feature level knows it and while there is none.
func TestLineageIsProposed(t *testing.T) {
	t.Parallel()
	kicked := 0
	s := newStage(t, Options{Kick: func() { kicked++ }})
	propose := func(level int32) (proposed int) {
		settings := tree.DefaultSettings()
		settings.FeatureLevel = level
		s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}))
		s.r.levels.supported = level
		s.r.levels.proposeSettings()
		for b, _ := s.r.proposals.Take(); b != nil; b, _ = s.r.proposals.Take() {
			batch := tree.RecordsOf(b[proposals.HeadSize:])
			for q := (tree.Request{}); batch.Next(&q); {
				if q.Op == tree.OpLineage {
					proposed++
				}
			}
		}
		return proposed
	}
	if n := propose(2); n != 0 {
		t.Errorf("%d proposed at level 2", n)
	}
	if n := propose(3); n != 1 || s.r.levels.Lineage() != 0 {
		t.Errorf("%d proposed at level 3, lineage %d", n, s.r.levels.Lineage())
	}
	kicked = 0
	if s.r.levels.proposeLineage(); kicked != 1 || s.r.proposals.Memory() == 0 {
		t.Errorf("the quorum is told %d times of it", kicked)
	}
	s.r.proposals.Take()
	s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpLineage, Body: tree.AppendLineage(nil, 77)}))
	if n := propose(3); n != 0 || s.r.levels.Lineage() != 77 {
		t.Errorf("%d proposed by an ensemble that has one, lineage %d", n, s.r.levels.Lineage())
	}
	s.r.alone, s.r.tree = true, tree.New(tree.Options{LevelMax: tree.FeatureLevelMax})
	kicked = 0
	s.r.levels.proposeLineage()
	if b, _ := s.r.proposals.Take(); b != nil || kicked > 0 {
		t.Error("a server alone proposes one")
	}
}

// TestSnapshotOfAnotherLineage refuses a snapshot of a lineage that isn't this server's, and takes one of a server
// whose data is its own ensemble's, with a lineage or from before there was one.
func TestSnapshotOfAnotherLineage(t *testing.T) {
	t.Parallel()
	theirs := func(lineage uint64) *tree.Tree {
		o := tree.New(tree.Options{LevelMax: tree.FeatureLevelMax})
		settings := tree.DefaultSettings()
		settings.FeatureLevel = 3
		batch := tree.AppendBatchHeader(nil, 1)
		batch = tree.AppendRecord(batch, &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)})
		batch = tree.AppendRecord(batch, &tree.Request{Op: tree.OpLineage, Body: tree.AppendLineage(nil, lineage)})
		if err := o.Apply(1, 1, batch, nil); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, test := range []struct {
		own, theirs uint64
		taken       bool
	}{{0, 0, true}, {0, 7, true}, {7, 0, true}, {7, 7, true}, {7, 8, false}} {
		load := func(storage.Meta, *storage.Snapshot) (*tree.Tree, error) { return theirs(test.theirs), nil }
		s := newStage(t, Options{Load: load})
		s.r.become(theirs(test.own))
		if _, err := s.r.Load(storage.Meta{}, nil); (err == nil) != test.taken {
			t.Errorf("lineage %d, a snapshot of %d: %v; want it taken: %t", test.own, test.theirs, err, test.taken)
		}
	}
}
