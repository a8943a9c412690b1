package replica

import "sync"

// largeKeptBytes bounds the memory of large replies that is kept for reuse: enough for a dozen
// lists of a hundred thousand children.
const largeKeptBytes = 8 << 20

// largeBuffers keeps output buffers larger than outputKeepBytes for the next large replies of any
// connection. When these buffers were garbage, a few clients reading long lists made the
// collector run dozens of times a second, and writes waited for it.
//
// Its mutex may be taken while any other lock of the replica is held. A nil *largeBuffers keeps
// nothing.
type largeBuffers struct {
	mu   sync.Mutex
	free [][]byte
	size int  // capacity of all buffers in free
	used bool // a buffer was taken since the last call of rest
}

// put takes a buffer that is no longer used. put may drop it.
func (l *largeBuffers) put(b []byte) {
	if l == nil || cap(b) <= outputKeepBytes {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+cap(b) <= largeKeptBytes {
		l.free = append(l.free, b[:0])
		l.size += cap(b)
	}
}

// get returns an empty buffer with room for n bytes: the smallest that is large enough, or nil if
// there is none or it is far too large.
func (l *largeBuffers) get(n int) []byte {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	best := -1
	for i, b := range l.free {
		if cap(b) >= n && cap(b)/4 <= max(n, outputKeepBytes) && (best < 0 || cap(b) < cap(l.free[best])) {
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

// rest releases all buffers if none was taken since its last call, and returns how many bytes are
// kept.
func (l *largeBuffers) rest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.used {
		l.free, l.size = nil, 0
	}
	l.used = false
	return int64(l.size)
}
