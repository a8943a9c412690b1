package jute

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxBufferDefault is the default limit of a frame's payload, in bytes, on both sides (Apache's jute.maxbuffer,
// 0xfffff).
const MaxBufferDefault = 0xfffff

// readStep is how many bytes ReadFrame allocates beyond those that have arrived.
const readStep = 64 << 10

// A FrameSizeError reports a frame whose length is negative or above the limit.
type FrameSizeError struct{ Size, Max int }

// Error returns the length, the limit and the setting for the limit.
func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame of %d bytes: the limit is %d (jute.maxbuffer); this is either a malformed message or too large",
		e.Size, e.Max)
}

// BeginFrame appends space for a frame's length. It returns the result and the offset of the frame, which the caller
// passes to EndFrame after it has appended the payload.
func BeginFrame(b []byte) ([]byte, int) { return append(b, 0, 0, 0, 0), len(b) }

// EndFrame sets the length of the frame that begins at offset start and ends at the end of b. It returns b. The payload
// must be shorter than 2 GiB; EndFrame doesn't compare it with any limit.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// AppendFrame appends a frame with one record and no header, such as a ConnectRequest. record is the record's method
// Append.
func AppendFrame(b []byte, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	return EndFrame(record(b), start)
}

// AppendRequest appends the frame of a request. record is the Append method of its record, or nil for a request without
// a record.
func AppendRequest(b []byte, xid int32, op Op, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	h := RequestHeader{Xid: xid, Op: op}
	if b = h.Append(b); record != nil {
		b = record(b)
	}
	return EndFrame(b, start)
}

// AppendReply appends the frame of a reply or notification. record is the Append method of its record, or nil for a
// reply without a record.
func AppendReply(b []byte, h ReplyHeader, record func([]byte) []byte) []byte {
	b, start := BeginFrame(b)
	if b = h.Append(b); record != nil {
		b = record(b)
	}
	return EndFrame(b, start)
}

// Encoded returns a function that appends an encoded record, for use in place of a record's Append method.
func Encoded(record []byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, record...) }
}

// ReadFrame reads one frame from r and returns its payload, of 0 to limit bytes, without the length. The payload uses
// the memory of buf if buf's capacity suffices. Otherwise memory is allocated as bytes arrive, not as the length
// announces. Errors are io.EOF if r ends before the frame, io.ErrUnexpectedEOF if r ends within it, other errors of r,
// and *FrameSizeError. After an error r can't be used further.
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
