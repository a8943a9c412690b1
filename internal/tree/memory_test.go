package tree

import (
	"bytes"
	"testing"
)

// TestPagesGoBack fills an arena and empties it: the memory of its pages goes back but for a few, is of no use to
// anybody then, and is taken again before new memory is.
func TestPagesGoBack(t *testing.T) {
	t.Parallel()
	var taken, released int
	a := arena{
		most:  arenaChunksMax,
		alloc: func(n int) []byte { taken += n; return make([]byte, n) },
		release: func(b []byte) {
			released += len(b)
			for i := range b {
				b[i] = 0xdb
			}
		},
	}
	const size, blocks = 900, 60_000
	fill := func() (refs []uint32) {
		for i := range blocks {
			ref := a.get(size)
			copy(a.bytes(ref, size), bytes.Repeat([]byte{byte(i)}, size))
			refs = append(refs, ref)
		}
		return refs
	}
	refs := fill()
	first := taken
	for i, ref := range refs {
		if b := a.bytes(ref, size); b[0] != byte(i) || b[size-1] != byte(i) {
			t.Fatalf("block %d was overwritten", i)
		}
		a.put(ref, size)
	}
	if kept := first - released; kept > 3*poolKeep*arenaPage || a.size() != 0 {
		t.Errorf("of %d bytes %d were given back; %d count as taken", first, released, a.size())
	}
	if diff := arenaInvariants(&a); diff != "" {
		t.Fatal(diff)
	}
	refs = fill()
	if taken != first {
		t.Errorf("%d bytes were taken anew, though %d were given back", taken-first, released)
	}
	for i, ref := range refs {
		if b := a.bytes(ref, size); b[0] != byte(i) || b[size-1] != byte(i) {
			t.Fatalf("block %d was overwritten after its page had been given back", i)
		}
	}
	if diff := arenaInvariants(&a); diff != "" {
		t.Fatal(diff)
	}
}
