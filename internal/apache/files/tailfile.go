package files

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/zooid-project/zooid/jute"
)

// A tail is encoded as
//
//	"zooid tail 1\n" | long after | long accepted | long current | long last | int count | count * buffer record | int CRC-32 of all before
const (
	// tailMagic begins a tail. Output of a program before it isn't part of the tail.
	tailMagic     = "zooid tail 1\n"
	tailHeadBytes = len(tailMagic) + 4*8 + 4
	// TailPrefaceMax bounds the output of a program before a tail: the report of the server's end, and what a login shell
	// prints.
	TailPrefaceMax = 1 << 20
)

// Write writes the encoding of a tail. After an error, the tail that was written is incomplete.
func (t *Tail) Write(w io.Writer) error {
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	b := []byte(tailMagic)
	for _, v := range [...]int64{t.After, t.Accepted, t.Current, t.Last} {
		b = jute.AppendLong(b, v)
	}
	b = jute.AppendInt(b, t.Count)
	if _, err := out.Write(b); err != nil {
		return err
	}
	if err := t.Each(func(record []byte) error {
		b = jute.AppendInt(b[:0], int32(len(record)))
		if _, err := out.Write(b); err != nil {
			return err
		}
		_, err := out.Write(record)
		return err
	}); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// ErrNoTail says that there is no complete tail.
var ErrNoTail = errors.New("it contains no complete output of zooid migrate tail")

// OpenTail finds the tail in a file that holds what a program has printed. preface is what the program has printed
// before it. The transactions are checked, and stay in the file.
func OpenTail(path string) (t *Tail, preface []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, TailPrefaceMax+int64(len(tailMagic))))
	if err != nil {
		return nil, nil, err
	}
	begin := bytes.Index(head, []byte(tailMagic))
	switch {
	case begin < 0 && len(head) > TailPrefaceMax:
		return nil, nil, fmt.Errorf("no tail begins within the first %d bytes of %s", TailPrefaceMax, path)
	case begin < 0:
		return nil, nil, ErrNoTail
	}
	if t, err = parseTail(tailAt(file, begin), TailBytesMax, nil); err != nil {
		return nil, nil, err
	}
	found := *t
	t.each = func(visit func([]byte) error) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		again, err := parseTail(tailAt(file, begin), TailBytesMax, visit)
		switch {
		case errors.Is(err, ErrNoTail) || err == nil && (again.Last != found.Last || again.Count != found.Count):
			return fmt.Errorf("the tail in %s changed while it was being read", path)
		}
		return err
	}
	return t, head[:begin], nil
}

// tailAt returns the reader of the tail that begins at an offset.
func tailAt(file *os.File, begin int) io.Reader {
	return io.NewSectionReader(file, int64(begin), math.MaxInt64-int64(begin))
}

// parseTail reads a tail, and calls visit, which may be nil, for each of its transactions. The checksum is verified
// only when parseTail returns.
func parseTail(r io.Reader, limit int64, visit func(record []byte) error) (*Tail, error) {
	s, sum := &stream{r: r}, crc32.NewIEEE()
	take := func(n int) ([]byte, error) {
		b, err := s.take(n)
		if errors.Is(err, errCut) {
			err = ErrNoTail
		}
		sum.Write(b)
		return b, err
	}
	head, err := take(tailHeadBytes)
	if err != nil {
		return nil, err
	}
	var d jute.Decoder
	d.Reset(head[len(tailMagic):])
	t := &Tail{After: d.Long(), Accepted: d.Long(), Current: d.Long(), Last: d.Long(), Count: d.Int()}
	if t.Count < 0 {
		return nil, ErrNoTail
	}
	for range t.Count {
		length, err := take(4)
		if err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(length)
		switch {
		case n > recordBytesMax:
			return nil, ErrNoTail
		case s.offset()+int64(n) > limit+int64(tailHeadBytes):
			return nil, errTailTooLarge(limit)
		}
		record, err := take(int(n))
		if err == nil && visit != nil {
			err = visit(record)
		}
		if err != nil {
			return nil, err
		}
	}
	whole := sum.Sum32()
	if b, err := take(4); err != nil {
		return nil, err
	} else if binary.BigEndian.Uint32(b) != whole {
		return nil, ErrNoTail
	}
	return t, nil
}
