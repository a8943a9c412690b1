package tree

import "unsafe"

// slabSlots is the number of slots in a chunk of a slab: 80 KiB of
// znodes, so that a small tree stays small and a large one grows in steps that
// take microseconds.
const slabSlots = 1024

// A slab holds values of T in chunks that never move, addressed by slot number
// from 1 up; slot 0 stands for none. T holds no pointers, so the garbage
// collector never looks inside. The first four bytes of a free slot hold the
// number of the next free one.
type slab[T any] struct {
	chunks []*[slabSlots]T // nil where restore found no live slot
	alloc  func(n int) []byte
	free   uint32   // head of the list of free slots
	empty  []uint32 // numbers of the nil chunks, all of whose slots are free
	used   uint32   // slots ever handed out; the highest slot number
	live   int
}

// at returns the value in a slot that has been handed out. Indexing the array would
// first read its beginning, in case the pointer is nil: on a large tree that is a
// wait for memory as long as that for the value.
func (s *slab[T]) at(slot uint32) *T {
	var v T
	return (*T)(unsafe.Add(unsafe.Pointer(s.chunks[slot/slabSlots]), uintptr(slot%slabSlots)*unsafe.Sizeof(v)))
}

func (s *slab[T]) link(slot uint32) *uint32 { return (*uint32)(unsafe.Pointer(s.at(slot))) }

// get hands out a zeroed slot.
func (s *slab[T]) get() uint32 {
	s.live++
	if last := len(s.empty) - 1; s.free == 0 && last >= 0 {
		c := s.empty[last]
		s.empty = s.empty[:last]
		s.reach(c * slabSlots)
		s.addFree(c, func(uint32) bool { return true })
	}
	if slot := s.free; slot != 0 {
		s.free = *s.link(slot)
		*s.link(slot) = 0
		return slot
	}
	if s.used == 1<<32-1 {
		panic("tree: invariant broken: a slab has no slot left")
	}
	s.used++
	s.reach(s.used)
	return s.used
}

// put takes a slot back.
func (s *slab[T]) put(slot uint32) {
	var zero T
	*s.at(slot) = zero
	*s.link(slot) = s.free
	s.free = slot
	s.live--
}

// peek returns the value in a slot, or nil if its chunk doesn't exist.
func (s *slab[T]) peek(slot uint32) *T {
	if c := slot / slabSlots; int(c) < len(s.chunks) && s.chunks[c] != nil {
		return s.at(slot)
	}
	return nil
}

// from returns slot, or the first slot after it whose chunk exists; beyond used
// there is none. It is how loops over all slots avoid the emptiness that a
// corrupt snapshot, or a tree that shrank, may have between them.
func (s *slab[T]) from(slot uint32) uint64 {
	at := uint64(slot)
	for at <= uint64(s.used) && s.chunks[at/slabSlots] == nil {
		at = (at/slabSlots + 1) * slabSlots
	}
	return at
}

// all iterates over the slots whose chunks exist, free ones included.
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

// next returns the slot to look at after at, as from does.
func (s *slab[T]) next(at uint64) uint64 {
	if at++; at%slabSlots != 0 || at > uint64(s.used) {
		return at
	}
	return s.from(uint32(at))
}

// addFree links the free slots of chunk c, lowest first.
func (s *slab[T]) addFree(c uint32, free func(slot uint32) bool) {
	for i := uint32(slabSlots); i > 0; i-- {
		slot := c*slabSlots + i - 1
		if slot != 0 && slot <= s.used && free(slot) {
			*s.link(slot) = s.free
			s.free = slot
		}
	}
}

// restored finds the free slots after live ones were put into place by number.
func (s *slab[T]) restored(free func(slot uint32) bool) {
	if s.live == int(s.used) {
		return
	}
	for c := len(s.chunks) - 1; c >= 0; c-- {
		if s.chunks[c] == nil {
			s.empty = append(s.empty, uint32(c))
		} else {
			s.addFree(uint32(c), free)
		}
	}
}

// reach makes the chunk of slot exist.
func (s *slab[T]) reach(slot uint32) {
	c := int(slot / slabSlots)
	for len(s.chunks) <= c {
		s.chunks = append(s.chunks, nil)
	}
	if s.chunks[c] == nil {
		b := s.alloc(int(unsafe.Sizeof([slabSlots]T{})))
		s.chunks[c] = (*[slabSlots]T)(unsafe.Pointer(&b[0]))
	}
}
