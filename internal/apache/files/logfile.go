package files

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
//	zeros up to the preallocated size
const (
	logMagic = 0x5a4b4c47
	logMark  = 'B'

	// apacheRecordMax is the largest record that Apache reads by default: twice jute.maxbuffer. Apache treats a greater
	// length as damage, and a smaller one that goes beyond the end of the file as a torn record.
	apacheRecordMax = 2 * 0xfffff
)

// logEnd says where and how a log ended.
type logEnd struct {
	torn   bool // within a record, and neither in zeros nor exactly at the end of the file
	offset int64
}

// errEmptyLog is returned for an empty file.
var errEmptyLog = errors.New("it is empty")

// readLog calls visit for each record of a log; a record is valid until visit returns. An error describes what is
// wrong at end.offset.
func readLog(r io.Reader, visit func(record []byte) error) (end logEnd, err error) {
	s := &stream{r: r}
	head, err := s.take(16)
	switch {
	case errors.Is(err, errCut) && len(s.buf) == 0:
		return end, errEmptyLog
	case err != nil:
		return end, err
	case binary.BigEndian.Uint32(head) != logMagic:
		return end, errors.New("it doesn't begin with ZKLG, as a log does")
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

// nextRecord returns the next record, nil at the zeros, or errCut if less than a record is left. It checks for the
// ends of a log in the same order as Apache.
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
		return nil, fmt.Errorf("a record of %d bytes extends beyond the end of the file", length)
	case err != nil:
		return nil, err
	case record[length] != logMark:
		return nil, errCut
	}
	record = record[:length]
	if found := uint64(adler32.Checksum(record)); found != sum {
		return nil, fmt.Errorf("the checksum of a record of %d bytes is %#x, but its bytes have %#x", length, sum, found)
	}
	return record, nil
}
