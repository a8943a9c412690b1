package tree

import "unsafe"

// slabSlots is the number of slots in a chunk of a slab. A chunk of znodes has 80 KiB, so that a small tree stays small
// and a large one grows in steps that take microseconds.
const slabSlots = 1024

// slabIdleKeep is how many chunks without a live slot keep their memory: returning a chunk to the system and taking it
// again costs more than using it.
const slabIdleKeep = 16

// A slab holds values of T in chunks that never move, addressed by slot number from 1 up; slot 0
// stands for none. T holds no pointers, so the garbage collector never looks inside. The first four
// bytes of a free slot hold the number of the next free slot of its chunk.
type slab[T any] struct {
	chunks  []*[slabSlots]T // nil where there is no live slot
	state   []slabChunk     // one per chunk
	alloc   func(n int) []byte
	release func(b []byte) // nil if memory is never returned
	room    uint32         // number +1 of the first chunk with free slots
	empty   []uint32       // numbers of the nil chunks, all of whose slots are free
	idle    []uint32       // numbers of chunks whose last live slot was freed; some may have live slots again
	spare   [][]byte       // chunks whose memory was returned to the system
	used    uint32         // slots ever handed out; the highest slot number
	live    int
}

// A slabChunk is the slab's record of a chunk. Chunks with free slots are linked.
type slabChunk struct {
	free       uint32 // head of the list of free slots
	prev, next uint32 // chunk numbers +1
	live       uint16
	queued     bool // the chunk is in idle
}

// at returns the value in a slot that has been handed out. Indexing the array would first read its beginning, to check
// the pointer for nil: on a large tree that is another wait for memory, as long as the one for the value.
func (s *slab[T]) at(slot uint32) *T {
	var v T
	return (*T)(unsafe.Add(unsafe.Pointer(s.chunks[slot/slabSlots]), uintptr(slot%slabSlots)*unsafe.Sizeof(v)))
}

func (s *slab[T]) link(slot uint32) *uint32 { return (*uint32)(unsafe.Pointer(s.at(slot))) }

// get hands out a zeroed slot.
func (s *slab[T]) get() uint32 {
	if last := len(s.empty) - 1; s.room == 0 && last >= 0 {
		c := s.empty[last]
		s.empty = s.empty[:last]
		s.reach(c * slabSlots)
		s.addFree(c, func(uint32) bool { return true })
	}
	s.live++
	if s.room != 0 {
		c := &s.state[s.room-1]
		c.live++
		slot := c.free
		if c.free = *s.link(slot); c.free == 0 {
			s.unlist(s.room - 1)
		}
		*s.link(slot) = 0
		return slot
	}
	if s.used == 1<<32-1 {
		panic("tree: invariant broken: a slab has no slot left")
	}
	s.used++
	s.reach(s.used)
	s.state[s.used/slabSlots].live++
	return s.used
}

// put frees a slot.
func (s *slab[T]) put(slot uint32) {
	var zero T
	*s.at(slot) = zero
	c := &s.state[slot/slabSlots]
	if *s.link(slot) = c.free; c.free == 0 {
		s.list(slot / slabSlots)
	}
	c.free = slot
	s.live--
	if c.live--; c.live == 0 && !c.queued {
		c.queued = true
		s.idle = append(s.idle, slot/slabSlots)
	}
}

// list puts a chunk at the head of the list of chunks with free slots.
func (s *slab[T]) list(chunk uint32) {
	c := &s.state[chunk]
	if c.prev, c.next = 0, s.room; c.next != 0 {
		s.state[c.next-1].prev = chunk + 1
	}
	s.room = chunk + 1
}

func (s *slab[T]) unlist(chunk uint32) {
	c := &s.state[chunk]
	if c.prev != 0 {
		s.state[c.prev-1].next = c.next
	} else {
		s.room = c.next
	}
	if c.next != 0 {
		s.state[c.next-1].prev = c.prev
	}
}

// reclaim returns the memory of one chunk without a live slot, and reports whether there may be more. slabIdleKeep such
// chunks keep their memory, and so does the chunk that is being filled for the first time.
func (s *slab[T]) reclaim() (more bool) {
	if len(s.idle) <= slabIdleKeep {
		return false
	}
	chunk := s.idle[0]
	s.idle = s.idle[1:]
	c := &s.state[chunk]
	if c.queued = false; c.live > 0 || chunk == s.used/slabSlots || chunk == 0 {
		return true
	}
	s.unlist(chunk)
	c.free = 0
	b := unsafe.Slice((*byte)(unsafe.Pointer(s.chunks[chunk])), unsafe.Sizeof([slabSlots]T{}))
	if s.release != nil {
		s.release(b)
	}
	s.spare = append(s.spare, b)
	s.chunks[chunk] = nil
	s.empty = append(s.empty, chunk)
	return true
}

// peek returns the value in a slot, or nil if its chunk doesn't exist.
func (s *slab[T]) peek(slot uint32) *T {
	if c := slot / slabSlots; int(c) < len(s.chunks) && s.chunks[c] != nil {
		return s.at(slot)
	}
	return nil
}

// from returns slot, or the first slot after it whose chunk exists. A result beyond used means that there is none.
// Loops over all slots use it to skip the gaps that a corrupt snapshot, or a tree that shrank, may leave between them.
func (s *slab[T]) from(slot uint32) uint64 {
	at := uint64(slot)
	for at <= uint64(s.used) && s.chunks[at/slabSlots] == nil {
		at = (at/slabSlots + 1) * slabSlots
	}
	return at
}

// all iterates over the slots whose chunks exist, including free ones.
func (s *slab[T]) all(yield func(slot uint32) bool) {
	if s.used == 0 {
		return
	}
	for at := s.from(1); at <= uint64(s.used); at = s.next(at) {
		if !yield(uint32(at)) {
			return
		}
	}
}

// next returns the first slot after at whose chunk exists. A result beyond used means that there is none.
func (s *slab[T]) next(at uint64) uint64 {
	if at++; at%slabSlots != 0 || at > uint64(s.used) {
		return at
	}
	return s.from(uint32(at))
}

// addFree links the free slots of chunk c, lowest first, and counts the live ones.
func (s *slab[T]) addFree(c uint32, free func(slot uint32) bool) {
	state := &s.state[c]
	for i := uint32(slabSlots); i > 0; i-- {
		slot := c*slabSlots + i - 1
		switch {
		case slot == 0 || slot > s.used:
		case free(slot):
			*s.link(slot) = state.free
			state.free = slot
		default:
			state.live++
		}
	}
	if state.free != 0 {
		s.list(c)
	}
}

// loaded finds the free slots after live ones have been put into place by number.
func (s *slab[T]) loaded(free func(slot uint32) bool) {
	for c := len(s.chunks) - 1; c >= 0; c-- {
		if s.chunks[c] == nil {
			s.empty = append(s.empty, uint32(c))
		} else {
			s.addFree(uint32(c), free)
		}
	}
}

// reach ensures that the chunk of slot exists.
func (s *slab[T]) reach(slot uint32) {
	c := int(slot / slabSlots)
	for len(s.chunks) <= c {
		s.chunks = append(s.chunks, nil)
		s.state = append(s.state, slabChunk{})
	}
	if s.chunks[c] != nil {
		return
	}
	var b []byte
	if last := len(s.spare) - 1; last >= 0 {
		b = s.spare[last]
		s.spare = s.spare[:last]
		clear(b)
	} else {
		b = s.alloc(int(unsafe.Sizeof([slabSlots]T{})))
	}
	s.chunks[c] = (*[slabSlots]T)(unsafe.Pointer(&b[0]))
}
