package replica

import "sync"

// largeKeptBytes bounds the memory of large replies that is kept for the next ones: of
// a dozen lists of a hundred thousand children.
const largeKeptBytes = 8 << 20

// largeBuffers keeps output buffers beyond outputKeepBytes for the next large replies of any
// connection. As garbage, those of a few clients that read long lists had the collector run
// dozens of times a second, and writes wait for it.
//
// Its mutex may be taken while any other lock of the replica is held. A nil one keeps
// nothing.
type largeBuffers struct {
	mu   sync.Mutex
	free [][]byte
	size int  // of all of them
	used bool // since rest was called last
}

// put takes a buffer that nobody uses any more. It may be dropped.
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

// get returns an empty buffer for n bytes, or nil: the smallest that is large enough, and
// none that is far too large.
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

// rest gives all memory back if none was taken since it was called last, and returns how
// much is kept.
func (l *largeBuffers) rest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.used {
		l.free, l.size = nil, 0
	}
	l.used = false
	return int64(l.size)
}
