package storage

import (
	"fmt"
	"slices"
)

// windowStep is how much of a segment recovery reads at a time. So little stays in the processor's
// own cache until it is verified, and a segment needn't fit in memory.
const windowStep = 256 << 10

// window gives access to a segment from its start to its end. It reads each byte from the file once.
type window struct {
	segment *segment
	size    int64  // of the file
	step    int64  // read at a time
	buf     []byte // content of the file from at on
	at      int64
}

// begin moves to the start of a segment.
func (w *window) begin(s *segment) (err error) {
	w.segment, w.buf, w.at = s, w.buf[:0], 0
	if w.size, err = s.file.Size(); err != nil {
		return fmt.Errorf("stat log segment %s: %w", s.path, err)
	}
	return nil
}

// bytes returns n bytes at off, fewer at the end of the file, valid until the next call. Bytes
// before keep may be dropped, and can't be returned again.
func (w *window) bytes(keep, off, n int64) ([]byte, error) {
	end := min(off+n, w.size)
	if have := w.at + int64(len(w.buf)); end > have {
		w.at, w.buf = min(keep, have), w.buf[:copy(w.buf, w.buf[min(keep, have)-w.at:])]
		kept, more := len(w.buf), min(max(end-have, w.step), w.size-have)
		w.buf = slices.Grow(w.buf, int(more))[:kept+int(more)]
		if err := readFull(w.segment.file, w.buf[kept:], have); err != nil {
			return nil, fmt.Errorf("read log segment %s: %w", w.segment.path, err)
		}
	}
	return w.buf[min(off, end)-w.at : end-w.at], nil
}
