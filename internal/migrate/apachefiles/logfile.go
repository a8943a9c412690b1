package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
)

// A transaction log:
//
//	"ZKLG" | int version 2 | long database 0
//	records: long Adler-32 of the record | int length | record | byte 'B'
//	zeros up to the size that the file was given ahead
const (
	logMagic = 0x5a4b4c47
	logMark  = 'B'

	// apacheRecordMax is the largest record that Apache reads by default: jute.maxbuffer and as much
	// again. It takes a length beyond that for damage; a smaller one that the file doesn't hold is a torn end.
	apacheRecordMax = 2 * 0xfffff
)

// logEnd says how the reading of a log ended.
type logEnd struct {
	torn   bool // in the middle of a record, and not in zeros or at the file's end
	offset int64
}

// errEmptyLog is returned for a log of no bytes at all.
var errEmptyLog = errors.New("it is empty")

// readLog calls visit for each record of a log, whose bytes are valid until it returns. The
// error says what is wrong at the offset of the end.
func readLog(r io.Reader, visit func(record []byte) error) (end logEnd, err error) {
	s := &stream{r: r}
	head, err := s.take(16)
	switch {
	case errors.Is(err, errCut) && len(s.buf) == 0:
		return end, errEmptyLog
	case err != nil:
		return end, err
	case binary.BigEndian.Uint32(head) != logMagic:
		return end, errors.New("it doesn't begin with ZKLG, as logs do")
	}
	for {
		end.offset = s.offset()
		record, err := nextRecord(s)
		if errors.Is(err, errCut) {
			end.torn = end.offset != s.offset() || len(s.buf) > s.at
			return end, nil
		}
		if err == nil && record == nil {
			return end, nil
		}
		if err == nil {
			err = visit(record)
		}
		if err != nil {
			return end, err
		}
	}
}

// nextRecord returns the next record; nil at the zeros, errCut where the file goes on with
// less than a record. Apache tells the ends of logs in this order.
func nextRecord(s *stream) ([]byte, error) {
	head, err := s.take(12)
	if err != nil {
		return nil, err
	}
	sum, length := binary.BigEndian.Uint64(head), int32(binary.BigEndian.Uint32(head[8:]))
	switch {
	case length == 0:
		return nil, nil
	case length < 0 || length > recordBytesMax:
		return nil, fmt.Errorf("a record of %d bytes", length)
	}
	record, err := s.take(int(length) + 1)
	switch {
	case errors.Is(err, errCut) && length > apacheRecordMax:
		return nil, fmt.Errorf("a record of %d bytes, which the file doesn't hold", length)
	case err != nil:
		return nil, err
	case record[length] != logMark:
		return nil, errCut
	}
	record = record[:length]
	if found := uint64(adler32.Checksum(record)); found != sum {
		return nil, fmt.Errorf("the checksum of a record of %d bytes is %#x; that of its bytes is %#x", length, sum, found)
	}
	return record, nil
}
