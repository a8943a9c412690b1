package memory

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestOffHeap takes pieces until there are several regions: each piece is zeroed,
// aligned to a cache line and shared with no other.
func TestOffHeap(t *testing.T) {
	t.Parallel()
	o := &OffHeap{}
	var pieces [][]byte
	for _, n := range []int{
		1, offHeapMin - 1, offHeapMin, offHeapMin + 8, firstRegion, furtherRegion + 1, 3 << 20, furtherRegion / 2,
	} {
		b := o.Alloc(n)
		if len(b) != n || cap(b) != n && n >= offHeapMin {
			t.Fatalf("asked for %d bytes, got %d with room for %d", n, len(b), cap(b))
		}
		if n >= offHeapMin && uintptr(unsafe.Pointer(&b[0]))%pieceAlign != 0 {
			t.Errorf("a piece of %d bytes begins at %p", n, &b[0])
		}
		if b[0] != 0 || b[n-1] != 0 {
			t.Errorf("a piece of %d bytes isn't zeroed", n)
		}
		b[0], b[n-1] = 1, 1
		pieces = append(pieces, b)
	}
	if len(o.regions) < 3 {
		t.Fatalf("all is in %d regions: this test should need more", len(o.regions))
	}
	for _, b := range pieces {
		if b[0] != 1 || b[len(b)-1] != 1 {
			t.Errorf("a piece of %d bytes was overwritten by a later one", len(b))
		}
		b[0], b[len(b)-1] = 0, 0 // of one byte these are the same
	}
	o.Unmap()
}

// TestOffHeapRelease gives a part of a piece back: it is zeros then, and what lies around it isn't touched. Memory on
// the heap is left alone.
func TestOffHeapRelease(t *testing.T) {
	t.Parallel()
	o := &OffHeap{}
	b := o.Alloc(1 << 20)
	for i := range b {
		b[i] = 1
	}
	part := b[100_000:300_000]
	o.Release(part)
	zeros := 0
	for i, c := range b {
		switch {
		case c == 0 && (i < 100_000 || i >= 300_000):
			t.Fatalf("byte %d beside what was given back is gone", i)
		case c == 0:
			zeros++
		}
	}
	if runtime.GOOS == "linux" && zeros < len(part)-2*unix.Getpagesize() {
		t.Errorf("%d of %d bytes were given back", zeros, len(part))
	}
	heap := bytes.Repeat([]byte{1}, 1<<20)
	o.Release(heap)
	if bytes.IndexByte(heap, 0) >= 0 {
		t.Error("memory on the heap was given back")
	}
	o.Unmap()
}
