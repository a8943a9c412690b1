package tree

import (
	"encoding/binary"
	"math/bits"
)

// The arena holds the payloads of znodes: a znode's name followed by its data. A block of up to blockMax bytes is cut
// from a page of its size class, and a page from a chunk. Larger blocks are described in large.go.
const (
	arenaGrain = 16       // sizes and addresses are multiples of it
	arenaPage  = 64 << 10 // bytes in a page
	arenaChunk = 1 << 20  // bytes asked from the allocator at a time
	blockMax   = 16 << 10 // larger ones would waste too much of a page

	// arenaChunksMax is the number of chunks that references can address: 64 GiB. When less than an eighth
	// (1/arenaReserve) of the chunks is left, requests that make the tree larger are refused. The reserve is far more
	// than all requests in flight on all servers need.
	arenaChunksMax = 1 << 32 / (arenaChunk / arenaGrain)
	arenaReserve   = 8
	// poolKeep to 2*poolKeep empty pages (4 to 8 MiB) keep their memory: returning a page to the system and taking it
	// again costs more than using it.
	poolKeep = 64

	fineMax     = 512 // up to this size there is a class per grain
	fineClasses = fineMax / arenaGrain
	classes     = fineClasses + 4*5 // then four per doubling, up to blockMax
)

// classOf returns the size class of a block of n bytes, 1 to blockMax.
func classOf(n int) int {
	if n <= fineMax {
		return (n - 1) / arenaGrain
	}
	e := bits.Len(uint(n-1)) - 1 // 2^e < n <= 2^(e+1), e >= 9
	quarter := (n - 1 - 1<<e) >> (e - 2)
	return fineClasses + (e-9)*4 + quarter
}

// classSize returns the size of the blocks of a class.
func classSize(c int) int {
	if c < fineClasses {
		return (c + 1) * arenaGrain
	}
	e, quarter := 9+(c-fineClasses)/4, (c-fineClasses)%4
	return 1<<e + (quarter+1)<<(e-2)
}

// A page describes 64 KiB of blocks of one class. Pages with room are linked in a list per class. A page without live
// blocks returns to the pool.
type page struct {
	free       uint32 // ref of the first free block, 0 if none
	prev, next uint32 // page numbers +1 in the list of pages with room
	live       uint16
	cut        uint16 // blocks ever cut since the page left the pool
	class      int16
	listed     bool
}

// An arena hands out blocks, addressed by a 32-bit reference: a small block by its address in grains, a large one by
// its index. The owner knows the size of a block, and therefore the kind of its reference.
type arena struct {
	alloc   func(n int) []byte
	release func(b []byte) // nil if memory is never returned
	chunks  [][]byte
	pages   []page
	room    [classes]uint32 // page number +1 of the first page with room
	pool    []uint32        // numbers of empty pages
	given   int             // how many pages, the first ones in pool, have returned their memory to the system
	most    int             // maximum number of chunks

	large largeArena

	liveBytes int // size of live blocks, small ones rounded up to their class
	blocks    int // live blocks
}

// bytes returns the n bytes of block ref.
func (a *arena) bytes(ref uint32, n int) []byte {
	if n == 0 {
		return nil
	}
	if n > blockMax {
		return a.large.blocks[ref][:n]
	}
	off := int(ref) % (arenaChunk / arenaGrain) * arenaGrain
	return a.chunks[ref/(arenaChunk/arenaGrain)][off : off+n : off+n]
}

// get hands out a block of n bytes with undefined content; for n = 0 it returns ref 0.
func (a *arena) get(n int) uint32 {
	if n == 0 {
		return 0
	}
	a.blocks++
	if n > blockMax {
		return a.getLarge(n)
	}
	c := classOf(n)
	a.liveBytes += classSize(c)
	if a.room[c] == 0 {
		a.addPage(c)
	}
	number := a.room[c] - 1
	p := &a.pages[number]
	size := classSize(c)
	ref := p.free
	if ref != 0 {
		p.free = binary.LittleEndian.Uint32(a.bytes(ref, 4))
	} else {
		ref = number*(arenaPage/arenaGrain) + uint32(p.cut)*uint32(size/arenaGrain)
		p.cut++
	}
	p.live++
	if p.free == 0 && int(p.cut) == arenaPage/size {
		a.unlist(number)
	}
	return ref
}

// put frees block ref, which has n bytes.
func (a *arena) put(ref uint32, n int) {
	if n == 0 {
		return
	}
	a.blocks--
	if n > blockMax {
		a.putLarge(ref)
		return
	}
	number := ref / (arenaPage / arenaGrain)
	p := &a.pages[number]
	a.liveBytes -= classSize(int(p.class))
	p.live--
	if p.live == 0 {
		if p.listed {
			a.unlist(number)
		}
		a.pool = append(a.pool, number)
		a.giveBack()
		return
	}
	binary.LittleEndian.PutUint32(a.bytes(ref, 4), p.free)
	p.free = ref
	if !p.listed {
		a.list(number)
	}
}

// fits reports whether a block that was handed out for was bytes can hold n bytes.
func (a *arena) fits(ref uint32, was, n int) bool {
	switch {
	case was == 0 || n == 0:
		return was == n
	case was > blockMax:
		size := len(a.large.blocks[ref])
		return n > blockMax && n <= size && n > size/2
	}
	return n <= blockMax && classOf(was) == classOf(n)
}

// addPage gives class c an empty page.
func (a *arena) addPage(c int) {
	if len(a.pool) == 0 {
		a.addChunk()
	}
	last := len(a.pool) - 1
	number := a.pool[last]
	a.pool = a.pool[:last]
	a.given = min(a.given, last)
	a.pages[number] = page{class: int16(c)}
	if number == 0 {
		a.pages[number].cut = 1 // ref 0 stands for no block
	}
	a.list(number)
}

// full reports whether the arena has few addresses left.
func (a *arena) full() bool {
	return a.most-len(a.chunks)+len(a.pool)/(arenaChunk/arenaPage) <= a.most/arenaReserve
}

// giveBack returns empty pages to the system when there are too many of them.
func (a *arena) giveBack() {
	if a.release == nil || len(a.pool)-a.given <= 2*poolKeep {
		return
	}
	for range poolKeep {
		a.release(a.bytesOfPage(a.pool[a.given]))
		a.given++
	}
}

func (a *arena) bytesOfPage(number uint32) []byte {
	off := int(number) % (arenaChunk / arenaPage) * arenaPage
	return a.chunks[number/(arenaChunk/arenaPage)][off : off+arenaPage : off+arenaPage]
}

func (a *arena) addChunk() {
	if len(a.chunks) == a.most {
		panic("tree: invariant broken: the arena has no address left")
	}
	a.chunks = append(a.chunks, a.alloc(arenaChunk))
	first := uint32(len(a.pages))
	for i := uint32(arenaChunk / arenaPage); i > 0; i-- {
		a.pages = append(a.pages, page{})
		a.pool = append(a.pool, first+i-1)
	}
}

// list puts a page at the head of the list of its class.
func (a *arena) list(number uint32) {
	p := &a.pages[number]
	p.listed, p.prev, p.next = true, 0, a.room[p.class]
	if p.next != 0 {
		a.pages[p.next-1].prev = number + 1
	}
	a.room[p.class] = number + 1
}

func (a *arena) unlist(number uint32) {
	p := &a.pages[number]
	if p.prev != 0 {
		a.pages[p.prev-1].next = p.next
	} else {
		a.room[p.class] = p.next
	}
	if p.next != 0 {
		a.pages[p.next-1].prev = p.prev
	}
	p.listed, p.prev, p.next = false, 0, 0
}
