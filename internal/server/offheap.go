package server

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/tree"
)

// offHeap gives a tree its memory outside of Go's heap: the tree has no pointers
// in it, so the collector has nothing to do there, and its pace stays that of
// the requests instead of that of the znodes.
type offHeap struct {
	mu     sync.Mutex
	chunks [][]byte
}

// offHeapMin is the smallest piece worth a mapping of its own.
const offHeapMin = 64 << 10

// alloc returns n zeroed bytes.
func (o *offHeap) alloc(n int) []byte {
	if n < offHeapMin {
		return make([]byte, n)
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n) // the heap has its own way to run out
	}
	o.mu.Lock()
	o.chunks = append(o.chunks, b)
	o.mu.Unlock()
	return b
}

// onOffHeap returns options whose trees get their memory from alloc, and a
// function that ties that memory to the tree made with them: it is given back
// once nothing refers to the tree any more, which whoever reads from it beyond
// its last mention ensures by runtime.KeepAlive.
func onOffHeap(opt tree.Options) (tree.Options, func(*tree.Tree)) {
	o := &offHeap{}
	opt.Alloc = o.alloc
	return opt, func(t *tree.Tree) {
		runtime.AddCleanup(t, func(o *offHeap) {
			for _, b := range o.chunks {
				unix.Munmap(b)
			}
		}, o)
	}
}
