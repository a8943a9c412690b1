package shadow

import (
	"encoding/binary"

	"github.com/zooid-project/zooid/jute"
)

// firstStep is how much memory is allocated for a frame before its bytes arrive.
const firstStep = 64 << 10

// An assembler splits one direction of a connection into frames.
type assembler struct {
	limit int // of a frame, in bytes
	head  [4]byte
	n     int // bytes of head read so far
	size  int
	frame []byte
}

// feed processes the next bytes, and calls each with every frame that they complete; each may keep the frame. The error
// is that of each, or a *jute.FrameSizeError. After an error the stream can no longer be followed.
func (a *assembler) feed(b []byte, each func(frame []byte) error) error {
	for len(b) > 0 {
		if a.n < len(a.head) {
			k := copy(a.head[a.n:], b)
			a.n += k
			b = b[k:]
			if a.n < len(a.head) {
				return nil
			}
			a.size = int(int32(binary.BigEndian.Uint32(a.head[:])))
			if a.size < 0 || a.size > a.limit {
				return &jute.FrameSizeError{Size: a.size, Max: a.limit}
			}
			a.frame = make([]byte, 0, min(a.size, firstStep))
		}
		k := min(len(b), a.size-len(a.frame))
		a.frame = append(a.frame, b[:k]...)
		b = b[k:]
		if len(a.frame) < a.size {
			return nil
		}
		frame := a.frame
		a.n, a.frame = 0, nil
		if err := each(frame); err != nil {
			return err
		}
	}
	return nil
}
