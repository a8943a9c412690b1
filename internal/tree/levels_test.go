package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
		_, err := Restore(Options{}, func() ([]byte, error) {
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
		case op == OpSecret || op == OpReplace:
			want = 2
		case op == OpChange:
			want = levelStaged
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
