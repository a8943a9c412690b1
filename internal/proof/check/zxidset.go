package check

// A zxidSet is a set of zxids: for each epoch, a table of pages of bits. Zxids are dense, so most of a set stays in the
// processor's cache.
type zxidSet struct {
	epochs map[int64]*epochSet
	last   *epochSet // the last epoch used; consecutive zxids share one
}

type epochSet struct {
	epoch int64
	pages []*zxidPage
}

type zxidPage [pageBits / 64]uint64

const (
	pageShift = 12
	pageBits  = 1 << pageShift
)

func (s *zxidSet) epoch(zxid int64) *epochSet {
	if e := zxid >> 32; s.last == nil || s.last.epoch != e {
		found := s.epochs[e]
		if found == nil {
			return nil
		}
		s.last = found
	}
	return s.last
}

func (s *zxidSet) has(zxid int64) bool {
	e := s.epoch(zxid)
	if e == nil {
		return false
	}
	counter := uint32(zxid)
	if n := int(counter >> pageShift); n < len(e.pages) && e.pages[n] != nil {
		return e.pages[n][counter%pageBits/64]>>(counter%64)&1 != 0
	}
	return false
}

// add returns false if zxid was already in the set.
func (s *zxidSet) add(zxid int64) bool {
	e := s.epoch(zxid)
	if e == nil {
		if s.epochs == nil {
			s.epochs = map[int64]*epochSet{}
		}
		e = &epochSet{epoch: zxid >> 32}
		s.epochs[e.epoch] = e
	}
	counter := uint32(zxid)
	n := int(counter >> pageShift)
	for n >= len(e.pages) {
		e.pages = append(e.pages, nil)
	}
	if e.pages[n] == nil {
		e.pages[n] = new(zxidPage)
	}
	word, bit := &e.pages[n][counter%pageBits/64], uint64(1)<<(counter%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
