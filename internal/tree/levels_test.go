package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// settingsAt is a batch that puts a feature level in force.
func settingsAt(level int32) []byte {
	s := DefaultSettings()
	s.FeatureLevel = level
	return AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpSettings, Body: s.Append(nil)})
}

// TestNewerIsNotDamage stops a replica at what it doesn't know, changes nothing, and
// doesn't speak of damage.
func TestNewerIsNotDamage(t *testing.T) {
	t.Parallel()
	batch := AppendBatchHeader(nil, 1)
	format := append([]byte(nil), batch...)
	format[0]++
	snapshot := func(tree *Tree, change func(header []byte)) error {
		chunks := drain(tree, chunkSize)
		change(chunks[0])
		_, err := Load(Options{}, func() ([]byte, error) {
			chunk := chunks[0]
			chunks = chunks[1:]
			return chunk, nil
		})
		return err
	}
	tree := New(Options{})
	before := tree.Digest()
	for what, err := range map[string]error{
		"a level":      tree.Apply(1, 1, settingsAt(FeatureLevelMax+1), nil),
		"an operation": tree.Apply(1, 1, AppendRecord(batch, &Request{Op: 7777}), nil),
		"one not in force": tree.Apply(1, 1, AppendRecord(batch, &Request{Op: OpSecret, Body: make([]byte, SecretSize)}),
			nil),
		"a batch":            tree.Apply(1, 1, format, nil),
		"a snapshot":         snapshot(tree, func(header []byte) { header[1] = snapshotVersion + 1 }),
		"an older version's": New(Options{LevelMax: 1}).Apply(1, 1, settingsAt(2), nil),
	} {
		var newer *NewerError
		if !errors.As(err, &newer) || errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), "upgrade this server") {
			t.Errorf("%s of a newer version: %v", what, err)
		}
	}
	if tree.Digest() != before {
		t.Error("an entry that can't be applied changed the tree")
	}
}

// TestLevelDoesNotSink keeps the level in force when a former leader's settings come
// late, and lets the first level be asked for again while it is in force.
func TestLevelDoesNotSink(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	for i, step := range []struct{ asked, want int32 }{{1, 1}, {2, 2}, {1, 2}, {2, 2}} {
		if err := tree.Apply(1, uint64(i+1), settingsAt(step.asked), nil); err != nil {
			t.Fatal(err)
		}
		if got := tree.Settings().FeatureLevel; got != step.want {
			t.Errorf("step %d asks for level %d: %d is in force, want %d", i, step.asked, got, step.want)
		}
		if tree.Digest() != tree.RecomputeDigest() {
			t.Errorf("step %d: the digest is wrong", i)
		}
	}
}

// TestLevelOf knows every operation of the log, and none that isn't there: an operation
// that is added needs a level of its own.
func TestLevelOf(t *testing.T) {
	t.Parallel()
	first := []jute.Op{
		jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL,
		jute.OpMulti, jute.OpReconfig, jute.OpDeleteContainer, jute.OpCreateSession, jute.OpCloseSession,
		OpAttach, OpExpire, OpSettings, OpMembers, OpEnter,
	}
	for op := jute.Op(-1000); op <= 1000; op++ {
		want := int32(0)
		switch {
		case slices.Contains(first, op):
			want = 1
		case op == OpSecret || op == OpRestore:
			want = 2
		case op == OpChange:
			want = levelStaged
		case op == OpLineage:
			want = levelLineage
		}
		if got := LevelOf(op); got != want {
			t.Errorf("%s (%d) is of level %d, want %d", OpName(op), op, got, want)
		}
	}
	for i, row := range ops {
		if row.op != OpAttach-jute.Op(i) {
			t.Errorf("row %d of the table is of operation %d (%s)", i, row.op, row.name)
		}
	}
}

// TestAdmits keeps new requests out of the log that servers with the first form of level 2 would
// evaluate differently, though the log may hold those of later versions.
func TestAdmits(t *testing.T) {
	t.Parallel()
	create := func(path string) []byte {
		r := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
		return r.Append(nil)
	}
	set := func(path string) []byte { r := jute.SetDataRequest{Path: path, Version: -1}; return r.Append(nil) }
	multi := func(op jute.Op, path string) []byte {
		acl := jute.WorldACL(jute.PermAll)
		return jute.AppendMulti(nil, []jute.MultiOp{
			{Op: jute.OpCreate, Path: "/a", ACL: acl}, {Op: op, Path: path, ACL: acl, Version: -1},
		})
	}
	for _, test := range []struct {
		what  string
		op    jute.Op
		body  []byte
		level int32 // the lowest at which it is admitted; 0 for none
	}{
		{"a znode", jute.OpCreate, create("/a"), 1},
		{"a policy", jute.OpCreate, create(policy.Path), 3},
		{"a policy with a TTL", jute.OpCreateTTL, jute.AppendLong(create(policy.Path), 5), 3},
		{"limits", jute.OpCreate2, create(pathLimits), 3},
		{"one below the limits", jute.OpCreate, create(pathLimits + "/path"), 1},
		{"data that names a policy", jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, "/a"),
			[]byte(policy.Path)), -1), 1},
		{"another policy", jute.OpSetData, set(policy.Path), 3},
		{"other limits", jute.OpSetData, set(pathLimits), 1},
		{"no policy", jute.OpDelete, jute.AppendInt(jute.AppendString(nil, policy.Path), -1), 1},
		{"a policy in a multi", jute.OpMulti, multi(jute.OpCreate, policy.Path), 3},
		{"another policy in a multi", jute.OpMulti, multi(jute.OpSetData, policy.Path), 3},
		{"no policy in a multi", jute.OpMulti, multi(jute.OpDelete, policy.Path), 1},
		{"no multi", jute.OpMulti, []byte(policy.Path), 1},
		{"a restore", OpRestore, nil, 3},
		{"a secret", OpSecret, nil, 2},
		{"nothing", 7777, nil, 0},
	} {
		for level := int32(1); level <= FeatureLevelMax; level++ {
			if got, want := Admits(level, test.op, test.body), test.level > 0 && level >= test.level; got != want {
				t.Errorf("%s at level %d: admitted %t, want %t", test.what, level, got, want)
			}
		}
	}
}
