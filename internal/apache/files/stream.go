package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
)

// Limits of what is read.
const (
	// DataBytesMax bounds one path, data or id: Zooid's own snapshots can't hold a larger znode. Apache's default for a
	// whole request is 1 MiB.
	DataBytesMax = 30 << 20
	// recordBytesMax bounds one record of a log, which may be a multi of many znodes.
	recordBytesMax = 1 << 30
	// streamStep is how much is read at once. A buffer grows only as bytes arrive, whatever length is claimed.
	streamStep = 1 << 20
)

// errCut says that a file ends in the middle of a value.
var errCut = errors.New("the file ends here")

// A stream reads a file's content in order.
type stream struct {
	r      io.Reader
	buf    []byte
	at     int         // the next byte to take
	summed int         // bytes of buf that are in sum
	begin  int64       // offset of buf[0]
	sum    hash.Hash32 // nil in a log
	err    error       // the first error of r; io.EOF at the end
}

// newSealed returns the stream of a snapshot, which is sealed by a checksum of all of it.
func newSealed(r io.Reader) *stream { return &stream{r: r, sum: adler32.New()} }

// offset returns the number of bytes taken.
func (s *stream) offset() int64 { return s.begin + int64(s.at) }

// fill makes n bytes available to take, or fails.
func (s *stream) fill(n int) error {
	if s.at > 0 && len(s.buf)-s.at < n {
		s.checksum()
		s.begin += int64(s.at)
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at, s.summed = 0, 0
	}
	for len(s.buf)-s.at < n {
		if errors.Is(s.err, io.EOF) {
			return errCut
		}
		if s.err != nil {
			return s.err
		}
		have := len(s.buf)
		if cap(s.buf)-have < streamStep {
			s.buf = append(s.buf, make([]byte, max(streamStep, have))...)[:have]
		}
		var m int
		m, s.err = s.r.Read(s.buf[have:min(cap(s.buf), have+streamStep)])
		s.buf = s.buf[:have+m]
	}
	return nil
}

// take returns the next n bytes, which are valid until the next call.
func (s *stream) take(n int) ([]byte, error) {
	if err := s.fill(n); err != nil {
		return nil, err
	}
	b := s.buf[s.at : s.at+n : s.at+n]
	s.at += n
	return b, nil
}

func (s *stream) int() (int32, error) {
	b, err := s.take(4)
	if err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

func (s *stream) long() (int64, error) {
	b, err := s.take(8)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// buffer reads a buffer or ustring, valid until the next call; nil for null.
func (s *stream) buffer() ([]byte, error) {
	n, err := s.int()
	switch {
	case err != nil:
		return nil, err
	case n == -1:
		return nil, nil
	case n < 0 || n > DataBytesMax:
		return nil, fmt.Errorf("a length of %d bytes; at most %d", n, DataBytesMax)
	case n == 0:
		return []byte{}, nil
	}
	return s.take(int(n))
}

// checksum returns the Adler-32 of all bytes taken.
func (s *stream) checksum() uint32 {
	if s.sum == nil {
		return 0
	}
	s.sum.Write(s.buf[s.summed:s.at])
	s.summed = s.at
	return s.sum.Sum32()
}

// rest returns everything that is left, but at most limit+1 bytes, without taking it. After an error it returns what
// precedes the error.
func (s *stream) rest(limit int) ([]byte, error) {
	for n := len(s.buf) - s.at; n <= limit; n = len(s.buf) - s.at {
		if err := s.fill(n + 1); errors.Is(err, errCut) {
			break
		} else if err != nil {
			return s.buf[s.at:], err
		}
	}
	return s.buf[s.at:], nil
}
