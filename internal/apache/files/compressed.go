package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// The suffixes of compressed snapshots. Apache also chooses the decompressor by the suffix.
const (
	suffixGzip   = ".gz"
	suffixSnappy = ".snappy"
)

// snappyHeader is how a stream written by snappy-java's SnappyOutputStream begins: a magic number, the version, and
// the lowest compatible version, which snappy-java doesn't check. Chunks follow:
//
//	int length | a Snappy block
var snappyHeader = []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")

// snappyMagicLen is the length of the part of snappyHeader by which Apache recognizes the format.
const snappyMagicLen = 8

// snappyBlockMax bounds a chunk, compressed or not. snappy-java writes 32 KiB and can be configured to write up to 512
// MiB, which no known user does.
const snappyBlockMax = 64 << 20

// decompressed returns a reader of the decompressed snapshot.
func decompressed(r io.Reader, suffix string) (io.Reader, error) {
	switch suffix {
	case suffixGzip:
		return gzip.NewReader(r)
	case suffixSnappy:
		head := make([]byte, len(snappyHeader))
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, fmt.Errorf("read the header of Snappy's stream: %w", err)
		}
		if string(head[:snappyMagicLen]) != string(snappyHeader[:snappyMagicLen]) {
			return nil, errors.New("it doesn't begin as snappy-java's streams do")
		}
		if version := int32(binary.BigEndian.Uint32(head[snappyMagicLen:])); version < 1 {
			return nil, fmt.Errorf("version %d of snappy-java's streams; the first is 1", version)
		}
		return &snappyReader{r: r}, nil
	}
	return r, nil
}

// isCompressionDamage reports whether err says that gzip's data is corrupt, has a wrong trailer, or ends too early.
func isCompressionDamage(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) ||
		errors.As(err, &corrupt)
}

// snappyReader reads the chunks of a snappy-java stream.
type snappyReader struct {
	r     io.Reader
	block []byte // compressed
	raw   []byte
	at    int
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (int, error) {
	for s.at == len(s.raw) {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.raw[s.at:])
	s.at += n
	return n, nil
}

// next decompresses the next chunk.
func (s *snappyReader) next() error {
	var length [4]byte
	if _, err := io.ReadFull(s.r, length[:]); err == io.ErrUnexpectedEOF || err == io.EOF {
		return io.EOF // snappy-java also takes an incomplete length for the end
	} else if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > snappyBlockMax {
		return fmt.Errorf("a block of Snappy's of %d bytes; at most %d", n, snappyBlockMax)
	}
	s.block = s.block[:0]
	for len(s.block) < int(n) { // allocate as bytes arrive, not as the length claims
		have, step := len(s.block), min(int(n)-len(s.block), streamStep)
		s.block = append(s.block, make([]byte, step)...)
		if _, err := io.ReadFull(s.r, s.block[have:]); err != nil {
			return fmt.Errorf("a block of Snappy's of %d bytes is cut short", n)
		}
	}
	size, err := s2.DecodedLen(s.block)
	if err != nil || size > snappyBlockMax || len(s.block) == 0 {
		return fmt.Errorf("a block of Snappy's doesn't decompress: %d bytes, %w", size, err)
	}
	if s.raw, err = s2.Decode(s.raw[:cap(s.raw)], s.block); err != nil {
		return fmt.Errorf("decompress a block of Snappy's: %w", err)
	}
	s.at = 0
	return nil
}
