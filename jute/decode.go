package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// ErrTruncated is wrapped by every decoding error that means that the bytes end before the record does.
var ErrTruncated = errors.New("record is cut short")

// A Decoder decodes records from a byte slice, from the front. The zero value decodes an empty slice. Its methods never
// panic: after the first error they return zero values (Count returns -1), and Err returns the error. So a caller
// checks Err once, after the last field, and before it uses what it has decoded. A length of a ustring or buffer below
// -1 is an error that doesn't wrap ErrTruncated; all others do.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder returns a Decoder of b. Decoded strings and buffers share b's memory.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Reset makes d decode b from the start and clears the error.
func (d *Decoder) Reset(b []byte) { *d = Decoder{b: b} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Remaining returns the number of bytes that are not decoded yet.
func (d *Decoder) Remaining() int { return len(d.b) - d.off }

// Rest returns the bytes that are not decoded yet. It doesn't advance the Decoder.
func (d *Decoder) Rest() []byte { return d.b[d.off:] }

// Offset returns the number of bytes decoded; after an error, that is the whole input.
func (d *Decoder) Offset() int { return d.off }

// fail records the first error; later reads return zero values.
func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.off = len(d.b)
}

// take returns the next n bytes, or fails.
func (d *Decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.fail(fmt.Errorf("decode %s of %d bytes at offset %d of %d: %w", what, n, d.off, len(d.b), ErrTruncated))
		return nil
	}
	p := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return p
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if p := d.take(1, "byte"); p != nil {
		return p[0]
	}
	return 0
}

// Bool reads one byte. Every value except 0 is true.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int reads four bytes.
func (d *Decoder) Int() int32 {
	if p := d.take(4, "int"); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Long reads eight bytes.
func (d *Decoder) Long() int64 {
	if p := d.take(8, "long"); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// Buffer reads a buffer. It returns nil for null, and a non-nil slice of length 0 for an empty buffer. The result
// shares the input's memory.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 {
		d.fail(fmt.Errorf("decode buffer at offset %d: unreasonable length %d", d.off-4, n))
		return nil
	}
	return d.take(int(n), "buffer")
}

// String reads a ustring. It returns "" for null. The result shares the input's memory.
func (d *Decoder) String() string {
	s, _ := d.NullString()
	return s
}

// NullString reads a ustring. It returns ("", false) for null, and ("", true) for an empty string.
func (d *Decoder) NullString() (string, bool) {
	p := d.Buffer()
	if len(p) == 0 {
		return "", p != nil
	}
	return unsafe.String(&p[0], len(p)), true
}

// Count reads the count of a vector whose elements take at least sizeMin bytes each; less than 1 counts as 1. It
// returns -1 for null and after an error, and 0 for any other negative count, as Apache's decoder does. It fails if the
// remaining bytes can't hold so many elements.
func (d *Decoder) Count(sizeMin int) int {
	n := d.Int()
	switch {
	case d.err != nil:
		return -1
	case n == -1:
		return -1
	case n < 0:
		return 0
	case int(n) > d.Remaining()/max(sizeMin, 1):
		d.fail(fmt.Errorf("decode vector of %d elements at offset %d, %d bytes left: %w", n, d.off-4, d.Remaining(),
			ErrTruncated))
		return -1
	}
	return int(n)
}

// Strings reads a vector of ustrings. It returns nil for null, and a slice that isn't nil for a count of 0.
func (d *Decoder) Strings() []string {
	n := d.Count(4)
	if n < 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.String())
	}
	if d.err != nil {
		return nil
	}
	return v
}
