package jute

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxBufferDefault is the largest frame either side accepts unless told
// otherwise (Apache's jute.maxbuffer, 0xfffff bytes).
const MaxBufferDefault = 0xfffff

// readStep is how many bytes ReadFrame allocates ahead of those that have arrived.
const readStep = 64 << 10

// A FrameSizeError reports a frame whose length is negative or above the limit.
type FrameSizeError struct{ Size, Max int }

// Error returns the length, the limit and the setting that moves it.
func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame of %d bytes: the limit is %d (jute.maxbuffer); this is either a malformed message or too large",
		e.Size, e.Max)
}

// BeginFrame appends room for a frame's length and returns the offset at which
// the frame starts, to be handed to EndFrame once its payload is appended.
func BeginFrame(b []byte) ([]byte, int) { return append(b, 0, 0, 0, 0), len(b) }

// EndFrame writes the length of the frame that begins at start.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// AppendFrame appends a whole frame of one record, such as a ConnectRequest; record is the
// record's Append.
func AppendFrame(b []byte, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	return EndFrame(record(b), start)
}

// AppendRequest appends the whole frame of a request; record is its record's Append, or nil
// for a request without a record.
func AppendRequest(b []byte, xid int32, op Op, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	h := RequestHeader{Xid: xid, Op: op}
	if b = h.Append(b); record != nil {
		b = record(b)
	}
	return EndFrame(b, start)
}

// AppendReply appends the whole frame of a reply or notification; record is its record's
// Append, or nil for a reply without a record.
func AppendReply(b []byte, h ReplyHeader, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	if b = h.Append(b); record != nil {
		b = record(b)
	}
	return EndFrame(b, start)
}

// Encoded returns a record's Append for a record that is encoded already.
func Encoded(record []byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, record...) }
}

// ReadFrame reads one frame's payload of at most limit bytes into buf, growing it
// as bytes arrive rather than as the length promises, and returns the payload.
// Errors are those of r, io.ErrUnexpectedEOF for a frame cut short, and
// *FrameSizeError.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > limit {
		return nil, &FrameSizeError{n, limit}
	}
	buf = buf[:0]
	for len(buf) < n {
		step := min(n-len(buf), max(readStep, cap(buf)-len(buf)))
		if cap(buf)-len(buf) < step {
			grown := make([]byte, len(buf), min(n, max(2*cap(buf), len(buf)+step)))
			copy(grown, buf)
			buf = grown
		}
		part := buf[len(buf) : len(buf)+step]
		if _, err := io.ReadFull(r, part); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		buf = buf[:len(buf)+step]
	}
	return buf, nil
}
