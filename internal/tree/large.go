package tree

import "math/bits"

// Payloads larger than blockMax have blocks of their own. Like all blocks they are outside of Go's heap: if they were
// on it, the collector would let garbage grow to the size of the live payloads.
//
// The allocator never takes memory back. So a freed block stays in the list of its size class, and its memory returns
// to the system. The classes, four per doubling, waste at most a fifth of a block's address space.
const (
	largeBits    = 14 // blockMax is 1<<largeBits
	largeClasses = 4 * (31 - largeBits)
	largeSpan    = 1 << 20 // bytes requested from the allocator at a time, for blocks smaller than that

	// largeKeep is how many bytes of freed blocks keep their memory: returning a block to the system and taking it
	// again costs more than using it.
	largeKeep = 4 << 20
)

// largeClass returns the class of a block of n bytes, more than blockMax.
func largeClass(n int) int {
	e := bits.Len(uint(n-1)) - 1 // 2^e < n <= 2^(e+1)
	return (e-largeBits)*4 + (n-1-1<<e)>>(e-2)
}

// largeSize returns the size of the blocks of a class.
func largeSize(c int) int {
	e, quarter := largeBits+c/4, c%4
	return 1<<e + (quarter+1)<<(e-2)
}

// A largeArena hands out large blocks, addressed by an index.
type largeArena struct {
	blocks  [][]byte // nil where an index is free
	indexes []uint32 // free indexes
	free    [largeClasses]struct {
		clean [][]byte // their memory was returned to the system or never used
		dirty [][]byte // freed, but their memory is kept
	}
	kept  int // bytes of all dirty blocks
	bytes int // bytes of all live blocks

	largest int // size of the largest block ever handed out
}

// getLarge hands out a block of n bytes, more than blockMax, with undefined content.
func (a *arena) getLarge(n int) uint32 {
	l, c := &a.large, largeClass(n)
	b := a.takeLarge(c)
	a.liveBytes += len(b)
	l.bytes += len(b)
	l.largest = max(l.largest, len(b))
	if last := len(l.indexes) - 1; last >= 0 {
		ref := l.indexes[last]
		l.indexes = l.indexes[:last]
		l.blocks[ref] = b
		return ref
	}
	l.blocks = append(l.blocks, b)
	return uint32(len(l.blocks) - 1)
}

func (a *arena) takeLarge(class int) []byte {
	l := &a.large
	f, size := &l.free[class], largeSize(class)
	if last := len(f.dirty) - 1; last >= 0 {
		b := f.dirty[last]
		f.dirty = f.dirty[:last]
		l.kept -= size
		return b
	}
	if len(f.clean) == 0 {
		span := a.alloc(max(size, largeSpan/size*size))
		for ; len(span) > 0; span = span[size:] {
			f.clean = append(f.clean, span[:size:size])
		}
	}
	last := len(f.clean) - 1
	b := f.clean[last]
	f.clean = f.clean[:last]
	return b
}

// putLarge frees a block of more than blockMax bytes.
func (a *arena) putLarge(ref uint32) {
	l := &a.large
	b := l.blocks[ref]
	a.liveBytes -= len(b)
	l.bytes -= len(b)
	l.blocks[ref] = nil
	l.indexes = append(l.indexes, ref)
	f := &l.free[largeClass(len(b))]
	if a.release == nil || l.kept+len(b) > largeKeep {
		if a.release != nil {
			a.release(b)
		}
		f.clean = append(f.clean, b)
		return
	}
	l.kept += len(b)
	f.dirty = append(f.dirty, b)
}
