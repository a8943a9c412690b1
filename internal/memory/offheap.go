package memory

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OffHeap allocates a tree's memory outside Go's heap. The tree has no pointers in it, so the garbage collector needn't
// scan it, and the collector's pace depends on the requests rather than on the number of znodes.
//
// Memory is cut from regions of address space, one after another; the system provides pages as they are touched. A
// small tree fits into the first region. The others ask for huge pages: without these, a request on a large tree waits
// as long for address translation as for the memory itself, and growing costs a page fault for every eighteen znodes.
type OffHeap struct {
	mu      sync.Mutex
	regions []region
	room    []byte // unused rest of the last region
}

// A region is a range of address space.
type region struct {
	mapped []byte
	huge   []byte // the part that uses huge pages
	// holed has the numbers of huge pages that were partly released and no longer ask to be huge; nil means all of
	// them.
	holed map[int]bool
}

const (
	// offHeapMin is the minimum size of an allocation outside the heap.
	offHeapMin = 32 << 10

	firstRegion   = 8 << 20   // bytes; uses ordinary pages, so that a small tree takes little
	furtherRegion = 256 << 20 // bytes of address space; an unused rest is lost
	hugePage      = 2 << 20   // bytes, the usual size; with another size this is only an alignment
	pieceAlign    = 64        // bytes; allocations start at a cache line

	// holedMax bounds the ranges into which releases split a region: the system limits the ranges of a process
	// (vm.max_map_count).
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
		return make([]byte, n) // if the heap fails too, the runtime handles it
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
	// One more huge page, so that the used part can be aligned to one.
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

// Release returns the whole system pages in b to the system until they are written again. Memory inside the heap is
// left alone.
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
		if first := uintptr(unsafe.Pointer(unsafe.SliceData(r.mapped))); at >= first && at-first < uintptr(len(r.mapped)) &&
			len(whole) > 0 {
			r.punch(whole)
			unix.Madvise(whole, unix.MADV_DONTNEED)
			return
		}
	}
}

// punch prevents the system from filling the hole that b leaves: it would provide a huge page when the rest of one is
// touched, or make one from the remaining pages (khugepaged).
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

// Unmap returns all memory to the system.
func (o *OffHeap) Unmap() {
	for _, r := range o.regions {
		unix.Munmap(r.mapped)
	}
}
