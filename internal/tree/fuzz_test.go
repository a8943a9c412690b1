package tree

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// FuzzApply feeds arbitrary batches to a tree with some content: whatever comes,
// Apply doesn't panic, nothing is broken after, and a batch that isn't one
// changes nothing.
func FuzzApply(f *testing.F) {
	w := fuzzed(f, 40)
	for _, e := range w.log {
		f.Add(e.batch)
	}
	f.Add(AppendRecord(AppendBatchHeader(nil, 1<<62), &Request{Op: 99}))
	base := drain(w.tree, chunkSize)
	f.Fuzz(func(t *testing.T, batch []byte) {
		tree, err := load(base)
		if err != nil {
			t.Fatal(err)
		}
		before := tree.Digest()
		_, refusal := tree.validate(batch)
		malformed := refusal != nil
		err = tree.Apply(w.model.term, w.index+1, batch, func(r *Result) { r.AppendReply(nil) })
		if malformed && (err == nil || tree.Digest() != before) {
			t.Fatalf("a malformed batch was applied: %v", err)
		}
		if bad := invariants(tree); bad != "" {
			t.Fatal(bad)
		}
	})
}

// fuzzed returns a walker after some steps.
func fuzzed(f *testing.F, steps int) *walker {
	w := newWalker(nil, 3)
	for range steps {
		w.step()
	}
	return w
}

// pack and unpack turn chunks into one input and back.
func pack(chunks [][]byte) (b []byte) {
	for _, c := range chunks {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(c))), c...)
	}
	return b
}

func unpack(b []byte) (chunks [][]byte) {
	for len(b) >= 4 {
		n := min(int(binary.BigEndian.Uint32(b)), len(b)-4)
		chunks = append(chunks, b[4:4+n])
		b = b[4+n:]
	}
	return chunks
}

// FuzzLoad feeds arbitrary chunks to Load, with the digest that the fuzzer
// can't guess put right: there is an error, or a tree with nothing broken whose
// snapshot loads with the same digest.
func FuzzLoad(f *testing.F) {
	for _, steps := range []int{0, 20, 60} {
		f.Add(pack(drain(fuzzed(f, steps).tree, 2000)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		loadHostile(t, unpack(bytes.Clone(b)))
	})
}

// loadHostile loads chunks, after a first try with the digest set right.
func loadHostile(t *testing.T, chunks [][]byte) {
	if len(chunks) == 0 {
		return
	}
	for _, c := range chunks { // slots far apart make much memory of few bytes
		if len(c) > 0 && (c[0] == chunkNodes || c[0] == chunkSessions) && hugeSlots(c) {
			return
		}
	}
	if end := chunks[len(chunks)-1]; len(end) == 17 && end[0] == chunkEnd {
		digest, ok := digestOf(chunks)
		if ok {
			binary.BigEndian.PutUint64(end[9:], digest)
		}
	}
	tree, err := load(chunks)
	if err != nil {
		return
	}
	if bad := invariants(tree); bad != "" {
		t.Fatal(bad)
	}
	again, err := load(drain(tree, 500))
	if err != nil || again.Digest() != tree.Digest() {
		t.Fatalf("the snapshot of what was loaded doesn't load: %v", err)
	}
}

// hugeSlots looks for a znode or session in a slot that would need a chunk far out.
func hugeSlots(c []byte) bool {
	return len(c) > 9 && binary.BigEndian.Uint32(c[5:]) > 1<<20
}

// digestOf computes the digest that the chunks should end with.
func digestOf(chunks [][]byte) (digest uint64, ok bool) {
	t := newTree(Options{})
	r := loading{tree: t}
	stage := []func(b []byte) error{nil,
		func(b []byte) error { return r.header(jute.NewDecoder(b)) },
		func(b []byte) error { return t.loadACLs(jute.NewDecoder(b)) },
		func(b []byte) error { return t.sessions.load(jute.NewDecoder(b), r.version) },
		t.loadNodes,
	}
	last := len(chunks) - 1
	for _, c := range chunks[:last] {
		if len(c) == 0 || int(c[0]) >= len(stage) || c[0] == 0 || stage[c[0]](c[1:]) != nil {
			return 0, false
		}
	}
	if t.nodes.live == 0 || r.finish(jute.NewDecoder(chunks[last][1:])) == nil {
		return 0, false
	}
	return t.Digest(), true
}

// FuzzPath compares finding a path with finding the list of its components by
// hand, and a path rebuilt from a slot with the one looked for.
func FuzzPath(f *testing.F) {
	w := fuzzed(f, 60)
	for _, p := range append(oddPaths, "/a/b", "/a/b/c", "/zookeeper/quota/a") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		slot := w.tree.find(path)
		if n := w.model.get(path); (n != nil) != (slot != 0) {
			t.Fatalf("find(%q) = %d, the model has it: %v", path, slot, n != nil)
		}
		if slot > rootSlot && string(w.tree.appendPath(nil, slot)) != path {
			t.Fatalf("slot %d was found as %q, its path is %q", slot, path, w.tree.appendPath(nil, slot))
		}
		if parent, name, ok := splitPath(path); ok && parent+"/"+name != path {
			t.Fatalf("splitPath(%q) = %q, %q", path, parent, name)
		}
	})
}

// TestLoadRefusesDamage flips, cuts and drops parts of a snapshot: whatever
// isn't whole is refused.
func TestLoadRefusesDamage(t *testing.T) {
	t.Parallel()
	w := newWalker(t, 5)
	for range 60 {
		w.step()
	}
	chunks := drain(w.tree, 700)
	for i, c := range chunks {
		for at := i % 7; at < len(c); at += 7 {
			if (c[0] == chunkNodes || c[0] == chunkSessions) && at < 9 {
				continue // counts and a first slot far out: the fuzzer's business
			}
			damaged := append([][]byte(nil), chunks...)
			damaged[i] = bytes.Clone(c)
			damaged[i][at] ^= 1 << (at % 8)
			tree, err := load(damaged)
			if err != nil {
				continue
			}
			if s := w.model.differ(tree); s != "" { // other slots, or another place in the log, may do
				t.Fatalf("byte %d of chunk %d (kind %d) was changed and loaded: %s", at, i, c[0], s)
			}
		}
		if _, err := load(append(append([][]byte(nil), chunks[:i]...), chunks[i+1:]...)); err == nil {
			t.Fatalf("chunk %d (kind %d) was dropped and the rest loaded", i, c[0])
		}
	}
	n := 0
	_, err := Load(Options{}, func() ([]byte, error) {
		if n++; n > 2 {
			return nil, io.ErrUnexpectedEOF
		}
		return chunks[n-1], nil
	})
	if err == nil {
		t.Fatal("a snapshot cut short was loaded")
	}
}
