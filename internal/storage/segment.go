package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// A segment is one file of the log. Its header and a first frame are durable before the file gets
// its name, so under that name it is never incomplete.
//
//	  0         8        12      16        24       32      40       48        56         64      72     80  88    92      512
//	  ┌─────────┬────────┬───────┬─────────┬────────┬───────┬────────┬─────────┬──────────┬───────┬──────┬───┬─────┬───────┐
//	  │ZOOIDLOG │ format │ flags │ cluster │ number │ salt  │ index  │ term    │ seq      │ chain │ size │ 0 │ crc │ zeros │ ...
//	  └─────────┴────────┴───────┴─────────┴────────┴───────┴────────┴─────────┴──────────┴───────┴──────┴───┴─────┴───────┘
//	512 ┌─────────────┬─────────────┬─────────────┬──────────────┐
//	    │ empty frame │ frame       │ frame       │ seal         │  zeros, or what the file held in an earlier use
//	    └─────────────┴─────────────┴─────────────┴──────────────┘
//
// index and term are those of the entry before this segment's first one, seq and chain those of the frame before its
// first one. size is the file's length when it was created: a shorter file was cut. salt is random.
//
// The flag reset says that the log restarts here, after the snapshot at index: earlier segments are void.
const (
	segmentMagic   = "ZOOIDLOG"
	segmentFormat  = 1
	segmentCRCAt   = 88
	segmentStart   = sectorSize // offset of the first frame
	segmentSizeMin = 4 * sectorSize
	segmentSuffix  = ".log"

	flagReset = 1
)

type segmentHeader struct {
	flags   uint32
	cluster uint64
	number  uint64
	salt    uint64
	prev    position
	seq     uint64
	chain   uint64
	size    uint64
}

// position is a place in raft's log.
type position struct{ index, term uint64 }

func (h *segmentHeader) append(buf []byte) []byte {
	le := binary.LittleEndian
	start := len(buf)
	buf = append(buf, segmentMagic...)
	buf = le.AppendUint32(buf, segmentFormat)
	buf = le.AppendUint32(buf, h.flags)
	for _, v := range [...]uint64{h.cluster, h.number, h.salt, h.prev.index, h.prev.term, h.seq, h.chain, h.size} {
		buf = le.AppendUint64(buf, v)
	}
	buf = appendZeros(buf, segmentCRCAt-(len(buf)-start))
	buf = le.AppendUint32(buf, crcUpdate(0, buf[start:]))
	return appendZeros(buf, sectorSize-(len(buf)-start))
}

// parseSegmentHeader parses the first sector of the segment at path. The error is a DamageError, or a FormatError.
func parseSegmentHeader(path string, b []byte) (h segmentHeader, err error) {
	le := binary.LittleEndian
	if len(b) < sectorSize || string(b[:8]) != segmentMagic || le.Uint32(b[8:]) == 0 {
		return h, damaged(path, 0, "not the start of a log segment")
	}
	if le.Uint32(b[segmentCRCAt:]) != crcUpdate(0, b[:segmentCRCAt]) {
		return h, damaged(path, 0, "checksum of the segment header wrong")
	}
	if f := le.Uint32(b[8:]); f != segmentFormat {
		reason := fmt.Sprintf("log format %d; this version reads format %d", f, segmentFormat)
		return h, &FormatError{DamageError{File: path, Reason: reason}}
	}
	return segmentHeader{
		flags: le.Uint32(b[12:]), cluster: le.Uint64(b[16:]), number: le.Uint64(b[24:]), salt: le.Uint64(b[32:]),
		prev: position{le.Uint64(b[40:]), le.Uint64(b[48:])},
		seq:  le.Uint64(b[56:]), chain: le.Uint64(b[64:]), size: le.Uint64(b[72:]),
	}, nil
}

// segment is an open segment of the log.
type segment struct {
	segmentHeader
	path string
	file File
	// inPlace says that written data can be overwritten without more room.
	inPlace bool
	// last is the highest index ever written to this segment, or prev.index.
	last uint64
}

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// numbered parses a name of the form 0123456789abcdef.suffix.
func numbered(name, suffix string) (uint64, bool) {
	hex, ok := strings.CutSuffix(name, suffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil && fmt.Sprintf("%016x", n) == hex
}

// newSegment durably writes the header h and an empty frame with hard to a spare file, and then
// renames it, not yet durably. It returns the segment and the chain after its frame. After a RoomError it has kept or
// removed the spare, and nothing else has changed.
func (l *Log) newSegment(spare string, h segmentHeader, hard hardState) (_ *segment, _ uint64, err error) {
	path := filepath.Join(l.path, segmentName(h.number))
	f, err := l.fs.OpenFile(spare)
	if err != nil {
		return nil, 0, l.spares.spoiled(spare, failure("open", spare, err))
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, 0, &FatalError{"stat", spare, err}
	}
	h.size = uint64(size)
	frame := frameHeader{seq: h.seq + 1, segment: h.number, cluster: h.cluster, chain: h.chain, hard: hard}
	buf, chain := appendFrame(h.append(nil), &frame, h.salt, nil)
	if _, err := f.WriteAt(buf, 0); err != nil {
		return nil, 0, l.spares.spoiled(spare, failure("write", spare, err))
	}
	if err := f.Fdatasync(); err != nil {
		if NoRoom(err) { // nothing relies on this file, but it must not be synced again
			return nil, 0, errors.Join(failure("fdatasync", spare, err), l.fs.Remove(spare))
		}
		return nil, 0, &FatalError{"fdatasync", spare, err}
	}
	if err := l.fs.Rename(spare, path); err != nil {
		return nil, 0, l.spares.spoiled(spare, failure("rename", spare, err))
	}
	return &segment{segmentHeader: h, path: path, file: f, inPlace: f.InPlace(false), last: h.prev.index}, chain, nil
}

// readWhole reads a file of a known size into buf, which it replaces if it is too small.
func readWhole(f File, buf []byte, size int64) ([]byte, error) {
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	return buf[:size], readFull(f, buf[:size], 0)
}
