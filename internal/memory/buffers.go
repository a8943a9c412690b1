package memory

import "sync"

// Buffers keeps large buffers that are no longer used for those who need one next. As garbage, the buffers of a few
// clients that read long lists made the collector run dozens of times a second. A nil *Buffers keeps nothing. All
// methods may be called by several goroutines at once; they take no other lock.
type Buffers struct {
	above, most int

	mu   sync.Mutex
	free [][]byte
	size int  // capacity of all buffers in free
	used bool // a buffer was taken since the last call of Rest
}

// NewBuffers returns Buffers that keep at most most bytes, in buffers of more than above bytes each.
func NewBuffers(above, most int) *Buffers { return &Buffers{above: above, most: most} }

// Put takes a buffer that is no longer used. It may drop it.
func (l *Buffers) Put(b []byte) {
	if l == nil || cap(b) <= l.above {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+cap(b) <= l.most {
		l.free = append(l.free, b[:0])
		l.size += cap(b)
	}
}

// Get returns an empty buffer with room for n bytes: the smallest that is large enough, or nil if there is none or it
// is far too large.
func (l *Buffers) Get(n int) []byte {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	best := -1
	for i, b := range l.free {
		if cap(b) >= n && cap(b)/4 <= max(n, l.above) && (best < 0 || cap(b) < cap(l.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	l.used = true
	b, last := l.free[best], len(l.free)-1
	l.free[best], l.free[last] = l.free[last], nil
	l.free = l.free[:last]
	l.size -= cap(b)
	return b
}

// Rest releases all buffers if none was taken since its last call, and returns how many bytes are kept.
func (l *Buffers) Rest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.used {
		l.free, l.size = nil, 0
	}
	l.used = false
	return int64(l.size)
}
