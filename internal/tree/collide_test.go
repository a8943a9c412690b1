package tree

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// colliding is a key under which all names of length bytes have one hash.
func colliding(length uint64) hashKey { return hashKey{1, 2, length, 4} }

func collidingName(i int) string { return fmt.Sprintf("/d/n%07d", i) }

// TestCollidingNames has many znodes with one hash, so that nearly all
// of them are in the overflow, and does with them what there is to do.
func TestCollidingNames(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 4000
	}
	tree, _ := grown(t, 0)
	tree.rekey(colliding(8))
	each := func(n int, op func(i int) (jute.Op, []byte)) {
		run(t, tree, batches(n/100, nextSeq(tree), op))
	}
	each(100, func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createBody([]string{"/d", fmt.Sprint("/e", i)}[min(i, 1)])
	})
	each(count, func(i int) (jute.Op, []byte) { return jute.OpCreate, createBody(collidingName(i)) })
	if n := len(tree.overflow); n < count-sameTagMax {
		t.Fatalf("%d of %d znodes are in the overflow: the names don't collide", n, count)
	}
	each(count, func(i int) (jute.Op, []byte) { return jute.OpSetData, setDataBody(collidingName(i)) })
	each(100, func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createBody(collidingName(count-1) + fmt.Sprint("/b", i))
	})
	each(count/2, func(i int) (jute.Op, []byte) {
		return jute.OpDelete, jute.AppendInt(jute.AppendString(nil, collidingName(2*i)), -1)
	})
	for path, want := range map[string]jute.Code{
		collidingName(0): jute.ErrNoNode, collidingName(1): jute.OK, collidingName(count): jute.ErrNoNode,
		collidingName(count-1) + "/b7": jute.OK, collidingName(count-1) + "/b100": jute.ErrNoNode,
		collidingName(1) + "/": jute.ErrNoNode,
	} {
		if _, code := tree.AppendGetData(nil, path, identities[0]); code != want {
			t.Errorf("getData of %s: %v instead of %v", path, code, want)
		}
	}
	whole := func(tree *Tree) {
		t.Helper()
		if broken := invariants(tree); broken != "" {
			t.Fatal(broken)
		}
	}
	whole(tree)
	again, err := load(drain(tree, chunkSize))
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest() != tree.Digest() || !again.Keyed() {
		t.Fatal("the loaded tree is another one")
	}
	whole(again)
	again.rekey(newHashKey([SecretSize]byte{5}))
	whole(again)
	if n := len(again.overflow); n != 0 {
		t.Fatalf("%d znodes are in the overflow under a random key", n)
	}
}

// TestCrowdedSegment has names whose tags share all bits that the directory can use:
// splitting doesn't help, and only what fits into the last segment is in the table.
func TestCrowdedSegment(t *testing.T) {
	table := newTable(func(n int) []byte { return make([]byte, n) })
	hash := func(i int) uint64 { return 0xabcde<<44 | uint64(i%segmentSlots)<<32 }
	taken := 0
	for i := range 2 * segmentSlots {
		if table.insert(hash(i), uint32(i+1)) {
			taken++
		}
	}
	if taken != segmentFull {
		t.Errorf("the table took %d entries that share %d bits; a segment takes %d", taken, depthMax, segmentFull)
	}
	for i := range 2 * segmentSlots {
		if was := table.remove(hash(i), uint32(i+1)); was != (i < taken) {
			t.Fatalf("entry %d: removed %t", i, was)
		}
	}
}

// TestSecret puts a secret in force on a tree that has znodes and sessions already,
// once, and only from feature level 2 on.
func TestSecret(t *testing.T) {
	tree, paths := grown(t, 10_000)
	index := tree.LastIndex()
	propose := func(secret byte) Outcome {
		index++
		body := make([]byte, SecretSize)
		body[0] = secret
		var outcome Outcome
		batch := AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpSecret, Body: body})
		newer := (*NewerError)(nil)
		if err := tree.Apply(1, index, batch, func(r *Result) { outcome = r.Outcome }); errors.As(err, &newer) {
			return Ignored
		} else if err != nil {
			t.Fatal(err)
		}
		if broken := invariants(tree); broken != "" {
			t.Fatal(broken)
		}
		return outcome
	}
	before := tree.key
	if tree.settings.FeatureLevel != 1 || propose(1) != Ignored || tree.key != before {
		t.Fatal("the key changed at feature level 1")
	}
	s := tree.Settings()
	s.FeatureLevel = 2
	index++
	if err := tree.Apply(1, index, AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpSettings, Body: s.Append(nil)}),
		nil); err != nil {
		t.Fatal(err)
	}
	image := tree.BeginSnapshot() // of the old key, written under the new one
	if propose(2) != Applied || tree.key == before || !tree.Keyed() {
		t.Fatal("the key didn't change at feature level 2")
	}
	key := tree.key
	if propose(3) != Ignored || tree.key != key {
		t.Fatal("a second secret changed the key")
	}
	var chunks [][]byte
	for more := true; more; {
		var c []byte
		c, more = image.Next(nil)
		chunks = append(chunks, c)
	}
	image.Close()
	if old, err := load(chunks); err != nil || old.key != before || old.Keyed() {
		t.Fatalf("the snapshot begun before the secret: %v", err)
	}
	again, err := load(drain(tree, chunkSize))
	if err != nil || again.key != key || !again.Keyed() || again.Digest() != tree.Digest() {
		t.Fatalf("the snapshot with the secret: %v", err)
	}
	if _, code := again.AppendExists(nil, paths[77], identities[0]); code != jute.OK {
		t.Fatal(code)
	}
}
