package memory

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OffHeap gives a tree its memory outside of Go's heap: the tree has no pointers
// in it, so the collector has nothing to do there, and its pace stays that of
// the requests instead of that of the znodes.
//
// It is cut from regions of address space one after the other, of which the
// system provides what is touched. A small tree fits into the first; the others
// ask for huge pages, without which a request on a large tree waits as long for
// the translation of its addresses as for the memory, and growing costs a fault
// for every eighteen znodes.
type OffHeap struct {
	mu      sync.Mutex
	regions []region
	room    []byte // of the last region, not handed out yet
}

// A region is a range of address space.
type region struct {
	mapped []byte
	huge   []byte // the part that asked for huge pages
	// numbers of its huge pages that parts of were given back, and that ask for none any more; nil: all of them
	holed map[int]bool
}

const (
	// offHeapMin is the smallest piece worth leaving the heap for.
	offHeapMin = 32 << 10

	firstRegion   = 8 << 20   // bytes; in ordinary pages, so that a small tree takes little
	furtherRegion = 256 << 20 // bytes of address space; what is left of one at its end is lost
	hugePage      = 2 << 20   // bytes, the usual size; with another one this is only an alignment
	pieceAlign    = 64        // bytes; pieces begin with a cache line

	// holedMax bounds the ranges that a region falls into by what was given back of it: the
	// system has a limit for all ranges of a process (vm.max_map_count).
	holedMax = 16
)

// Alloc returns n zeroed bytes.
func (o *OffHeap) Alloc(n int) []byte {
	if n < offHeapMin {
		return make([]byte, n)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := (n + pieceAlign - 1) &^ (pieceAlign - 1)
	if len(o.room) < whole && !o.addRegion(whole) {
		return make([]byte, n) // the heap has its own way to run out
	}
	b := o.room[:n:n]
	o.room = o.room[whole:]
	return b
}

// addRegion maps the next region, with room for n bytes at least.
func (o *OffHeap) addRegion(n int) bool {
	size := firstRegion
	if len(o.regions) > 0 {
		size = furtherRegion
	}
	// One huge page more, so that what is used can begin with one.
	b, err := unix.Mmap(-1, 0, max(size, n)+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	o.room = b[-uintptr(unsafe.Pointer(&b[0]))%hugePage:]
	r := region{mapped: b}
	if len(o.regions) > 0 {
		r.huge, r.holed = o.room[:len(o.room)&^(hugePage-1)], map[int]bool{}
		wantHugePages(r.huge, true)
	}
	o.regions = append(o.regions, r)
	return true
}

// Release gives the whole system pages in b back until they are written again. What
// isn't off the heap is left alone.
func (o *OffHeap) Release(b []byte) {
	at, page := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unix.Getpagesize())
	skip := -at & (page - 1)
	if skip >= uintptr(len(b)) {
		return
	}
	whole := b[skip : skip+(uintptr(len(b))-skip)&^(page-1)]
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.regions {
		r := &o.regions[i]
		if first := uintptr(unsafe.Pointer(unsafe.SliceData(r.mapped))); at >= first && at-first < uintptr(len(r.mapped)) && len(whole) > 0 {
			r.punch(whole)
			unix.Madvise(whole, unix.MADV_DONTNEED)
			return
		}
	}
}

// punch keeps the system from filling the hole that b leaves: it would give a huge page to
// whatever touches the rest of one, or make one of what is left (khugepaged).
func (r *region) punch(b []byte) {
	if r.holed == nil || len(r.huge) == 0 {
		return
	}
	begin := int(uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&r.huge[0])))
	for page := begin / hugePage; page*hugePage < min(begin+len(b), len(r.huge)); page++ {
		if r.holed[page] {
			continue
		}
		if r.holed[page] = true; len(r.holed) > holedMax {
			r.holed = nil
			wantHugePages(r.huge, false)
			return
		}
		wantHugePages(r.huge[page*hugePage:(page+1)*hugePage], false)
	}
}

// Unmap gives everything back.
func (o *OffHeap) Unmap() {
	for _, r := range o.regions {
		unix.Munmap(r.mapped)
	}
}
