package server

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/tree"
)

// offHeap gives a tree its memory outside of Go's heap: the tree has no pointers
// in it, so the collector has nothing to do there, and its pace stays that of
// the requests instead of that of the znodes.
//
// It is cut from regions of address space one after the other, of which the
// system provides what is touched. A small tree fits into the first; the others
// ask for huge pages, without which a request on a large tree waits as long for
// the translation of its addresses as for the memory, and growing costs a fault
// for every eighteen znodes.
type offHeap struct {
	mu      sync.Mutex
	regions [][]byte
	room    []byte // of the last region, not handed out yet
}

const (
	// offHeapMin is the smallest piece worth leaving the heap for.
	offHeapMin = 32 << 10

	firstRegion   = 8 << 20   // bytes; in ordinary pages, so that a small tree takes little
	furtherRegion = 256 << 20 // bytes of address space; what is left of one at its end is lost
	hugePage      = 2 << 20   // bytes, the usual size; with another one this is only an alignment
	pieceAlign    = 64        // bytes; pieces begin with a cache line
)

// alloc returns n zeroed bytes.
func (o *offHeap) alloc(n int) []byte {
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
func (o *offHeap) addRegion(n int) bool {
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
	if len(o.regions) > 0 {
		wantHugePages(o.room)
	}
	o.regions = append(o.regions, b)
	return true
}

// unmap gives everything back.
func (o *offHeap) unmap() {
	for _, b := range o.regions {
		unix.Munmap(b)
	}
}

// onOffHeap returns options whose trees get their memory from alloc, and a
// function that ties that memory to the tree made with them: it is given back
// once nothing refers to the tree any more, which whoever reads from it beyond
// its last mention ensures by runtime.KeepAlive. With nil, for a tree that came to
// nothing, it is given back at once.
func onOffHeap(opt tree.Options) (tree.Options, func(*tree.Tree)) {
	o := &offHeap{}
	opt.Alloc = o.alloc
	return opt, func(t *tree.Tree) {
		if t == nil {
			o.unmap()
			return
		}
		runtime.AddCleanup(t, (*offHeap).unmap, o)
	}
}
