package tree

import "unsafe"

// The table finds a znode's slot by the hash of its path. It uses extendible hashing: a directory indexed by the top
// bits of the hash names segments, each a small open-addressing table with linear probing. Only a segment that fills up
// is split, so growth never stalls for longer than it takes to move one segment's entries (tens of microseconds),
// however large the table is.
//
// Names chosen to collide can't make the table degenerate: it accepts at most sameTagMax entries with one tag, and
// splits a segment at most as often as the directory has bits. Entries that it refuses go to the tree's overflow.
//
//	hash   | directory, up to 20 bits | place in the segment, 12 bits | not used |
//	entry  | the upper half of the hash, 32 bits | slot, 32 bits |
const (
	segmentBits  = 12
	segmentSlots = 1 << segmentBits
	segmentFull  = segmentSlots / 10 * 8 // beyond this, linear probing gets slow
	depthMax     = 32 - segmentBits

	segmentBytes   = segmentSlots * 8
	segmentsPerAsk = 32 // maximum requested from the allocator at a time

	// sameTagMax bounds the znodes that a lookup compares. Of 10 million znodes with random tags, some thousand pairs
	// share a tag, and no four znodes do.
	sameTagMax = 8
)

// An entry holds the tag and the slot of a znode. 0 is a free entry.
type entry uint64

func newEntry(hash uint64, slot uint32) entry { return entry(hash>>32<<32 | uint64(slot)) }
func (e entry) slot() uint32                  { return uint32(e) }
func (e entry) tag() uint32                   { return uint32(e >> 32) }

// in returns the entry at index i modulo segmentSlots. Like slab.at, it doesn't read the beginning of the array.
func in(entries *[segmentSlots]entry, i uint32) *entry {
	return (*entry)(unsafe.Add(unsafe.Pointer(entries), uintptr(i%segmentSlots)*unsafe.Sizeof(entry(0))))
}

// home returns the place in its segment at which the search for a tag begins.
func home(tag uint32) uint32 { return tag % segmentSlots }

type segment struct {
	entries *[segmentSlots]entry
	count   int
	depth   uint // how many bits of the hash all its entries share
}

type table struct {
	alloc     func(n int) []byte
	room      []byte   // memory for further segments
	directory []uint32 // index of the segment for each value of the top depth bits
	depth     uint
	segments  []segment
	spare     *[segmentSlots]entry // scratch space of split
}

func newTable(alloc func(n int) []byte) table {
	t := table{alloc: alloc, directory: []uint32{0}, spare: new([segmentSlots]entry)}
	t.segments = []segment{{entries: t.newEntries()}}
	return t
}

func (t *table) newEntries() *[segmentSlots]entry {
	if len(t.room) == 0 {
		t.room = t.alloc(segmentBytes * max(1, min(len(t.segments), segmentsPerAsk)))
	}
	b := t.room[:segmentBytes]
	t.room = t.room[segmentBytes:]
	return (*[segmentSlots]entry)(unsafe.Pointer(&b[0]))
}

func (t *table) segmentOf(tag uint32) *segment {
	return &t.segments[t.directory[uint64(tag)>>(32-t.depth)]]
}

// A probe iterates over the slots that may hold a znode with a given hash.
type probe struct {
	entries *[segmentSlots]entry
	tag     uint32
	at      uint32
}

func (t *table) probe(hash uint64) probe {
	tag := uint32(hash >> 32)
	return probe{t.segmentOf(tag).entries, tag, home(tag)}
}

// next returns the next slot whose znode may have the hash, 0 if there is none left.
func (p *probe) next() uint32 {
	for {
		e := *in(p.entries, p.at)
		p.at++
		if e == 0 {
			return 0
		}
		if e.tag() == p.tag {
			return e.slot()
		}
	}
}

// grow makes an empty table as large as n entries need, so that inserting them doesn't split one segment after another.
func (t *table) grow(n int) {
	depth := uint(0)
	for depth < depthMax && n>>depth > segmentFull {
		depth++
	}
	t.directory, t.depth, t.segments[0].depth = make([]uint32, 1<<depth), depth, depth
	for i := 1; i < len(t.directory); i++ {
		t.directory[i] = uint32(i)
		t.segments = append(t.segments, segment{entries: t.newEntries(), depth: depth})
	}
}

// insert adds a slot, which must not be in the table yet. It reports whether there was room for it.
func (t *table) insert(hash uint64, slot uint32) bool {
	tag := uint32(hash >> 32)
	s := t.segmentOf(tag)
	for s.count >= segmentFull {
		if s.depth == depthMax {
			return false
		}
		t.split(tag)
		s = t.segmentOf(tag)
	}
	i, same := home(tag), 0
	for e := *in(s.entries, i); e != 0; e = *in(s.entries, i) {
		if e.tag() == tag {
			same++
		}
		i++
	}
	if same >= sameTagMax {
		return false
	}
	*in(s.entries, i) = newEntry(hash, slot)
	s.count++
	return true
}

// place adds an entry to a segment that has room.
func place(entries *[segmentSlots]entry, e entry) {
	i := home(e.tag())
	for *in(entries, i) != 0 {
		i++
	}
	*in(entries, i) = e
}

// clear removes all entries but keeps the memory.
func (t *table) clear() {
	for i := range t.segments {
		s := &t.segments[i]
		*s.entries, s.count = [segmentSlots]entry{}, 0
	}
}

// remove removes a slot and reports whether it was in the table.
func (t *table) remove(hash uint64, slot uint32) bool {
	want := newEntry(hash, slot)
	s := t.segmentOf(want.tag())
	i := home(want.tag())
	for s.entries[i] != want {
		if s.entries[i] == 0 {
			return false
		}
		i = (i + 1) % segmentSlots
	}
	s.count--
	// Close the gap: move back each later entry of the run that is allowed there.
	for j := i; ; {
		j = (j + 1) % segmentSlots
		e := s.entries[j]
		if e == 0 {
			break
		}
		if (j-home(e.tag()))%segmentSlots >= (j-i)%segmentSlots {
			s.entries[i] = e
			i = j
		}
	}
	s.entries[i] = 0
	return true
}

// split divides the segment of tag, whose depth is below depthMax, by the next bit of the hash.
func (t *table) split(tag uint32) {
	index := t.directory[uint64(tag)>>(32-t.depth)]
	depth := t.segments[index].depth + 1
	if depth > t.depth {
		doubled := make([]uint32, 2*len(t.directory))
		for i, s := range t.directory {
			doubled[2*i], doubled[2*i+1] = s, s
		}
		t.directory, t.depth = doubled, depth
	}
	t.segments = append(t.segments, segment{entries: t.newEntries(), depth: depth})
	low, high := &t.segments[index], &t.segments[len(t.segments)-1]
	low.depth, low.count = depth, 0
	*t.spare = *low.entries
	*low.entries = [segmentSlots]entry{}
	for _, e := range t.spare {
		if e == 0 {
			continue
		}
		s := low
		if e.tag()>>(32-depth)&1 == 1 {
			s = high
		}
		place(s.entries, e)
		s.count++
	}
	// The upper half of the directory's entries for the old segment now name the new one.
	span := uint32(1) << (t.depth - depth)
	first := (tag>>(32-depth) | 1) << (t.depth - depth)
	for i := first; i < first+span; i++ {
		t.directory[i] = uint32(len(t.segments) - 1)
	}
}
