package tree

import (
	"errors"
	"testing"
)

// lineageOf is a batch that proposes a lineage.
func lineageOf(body []byte) []byte {
	return AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpLineage, Body: body})
}

// TestFirstLineageCounts: a tree takes the first lineage, and only from its level on. It is in the digest and in
// snapshots, and takes no zxid.
func TestFirstLineageCounts(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	index := uint64(0)
	apply := func(batch []byte) error {
		index++
		return tree.Apply(1, index, batch, nil)
	}
	if err := apply(settingsAt(levelLineage - 1)); err != nil {
		t.Fatal(err)
	}
	var newer *NewerError
	if err := apply(lineageOf(AppendLineage(nil, 5))); !errors.As(err, &newer) {
		t.Fatalf("below its level: %v", err)
	}
	index--
	if err := apply(settingsAt(levelLineage)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		body []byte
		want uint64
	}{
		{nil, 0}, {[]byte("longer than a lineage"), 0}, {AppendLineage(nil, 0), 0}, {AppendLineage(nil, 5), 5},
		{AppendLineage(nil, 6), 5},
	} {
		digest, zxid, before := tree.Digest(), tree.LastZxid(), tree.Lineage()
		if err := apply(lineageOf(step.body)); err != nil {
			t.Fatal(err)
		}
		if tree.Lineage() != step.want || tree.LastZxid() != zxid || tree.Digest() != tree.RecomputeDigest() {
			t.Errorf("after %x: lineage %d, want %d; zxid %#x after %#x", step.body, tree.Lineage(), step.want, tree.LastZxid(),
				zxid)
		}
		if changed := before != tree.Lineage(); changed == (digest == tree.Digest()) {
			t.Errorf("after %x: the lineage changed: %t, and the digest is %x after %x", step.body, changed, tree.Digest(),
				digest)
		}
		again, err := load(drain(tree, chunkSize))
		if err != nil || again.Lineage() != tree.Lineage() || again.Digest() != tree.Digest() {
			t.Errorf("after %x: a snapshot has another state (%v)", step.body, err)
		}
	}
}
