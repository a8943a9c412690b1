package storage

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"go.etcd.io/raft/v3/raftpb"
)

// A frame is one batch: Append writes it with one pwrite and makes it durable with one fdatasync.
// It begins on a sector boundary and is padded with zeros to the next one, so that writing it never
// touches a sector with an acknowledged byte.
//
//	   0      4       8      16        24        32        40      48      52      56
//	   ┌──────┬───────┬──────┬─────────┬─────────┬─────────┬───────┬───────┬───────┐
//	   │magic │length │ seq  │ segment │ cluster │ chain   │ first │ count │ flags │
//	   ├──────┴───────┼──────┴─────────┼─────────┴─────┬───┴───┬───┴──┬────┴───────┘
//	56 │ HardState:   │ vote           │ commit        │ zero  │ crc  │        frame header, 96
//	   │ term         │                │               │ 80-92 │      │
//	   ├───────┬──────┼────────────────┼───────────────┴┬──────┴──────┴──────────┐
//	96 │length │ crc  │ index          │ term<<8 | type │ data, padded to 8      │  record, count times
//	   ├───────┼──────┼────────────────┼────────────────┼────────────────────────┘
//	   │magic  │ crc  │ seq            │ chain after    │                           trailer, 24
//	   └───────┴──────┴────────────────┴────────────────┘
//
// All numbers are little endian, all crcs are CRC32-C.
//
//   - length counts from the header's first byte to the trailer's last.
//   - seq numbers the frames of all segments, without a gap.
//   - The header's crc starts from the segment's salt, so neither a frame from an earlier use of the
//     file nor bytes chosen by a client can be mistaken for a header of this segment.
//   - A record's crc covers its header from index on, and its data. The trailer's crc covers everything before it.
//   - chain is a checksum over all frames before this one; "chain after" includes this one.
//     So a frame is valid only in its place: in this cluster, in this segment, in this order.
const (
	frameMagic   = 0x315a4c46 // "FLZ1"
	trailerMagic = 0x315a4c54 // "TLZ1"

	sectorSize       = 512
	pageSize         = 4096
	frameHeaderSize  = 96
	recordHeaderSize = 24
	trailerSize      = 24

	// frameSizeMax bounds one batch, so that lengths fit in the header's 32 bits with room to spare.
	// No entry of the server comes near it.
	frameSizeMax = 1 << 30

	// frameSizeAim is the size above which a batch of several entries is written as several frames.
	// Most batches are far smaller, but a follower may append the entries of many messages at once.
	frameSizeAim = 64 << 20

	// flagSeal marks the last frame of a segment: the next segment exists and is durable.
	flagSeal = 1
)

// crcUpdate continues a CRC32-C. The standard library builds the table once and uses the processor's instruction.
func crcUpdate(crc uint32, p []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), p)
}

// hardState is raftpb.HardState as a plain value. Its commit may be older than the last one from raft.
type hardState struct{ term, vote, commit uint64 }

// frameHeader is the header of a frame, its first 96 bytes, without magic and crc.
type frameHeader struct {
	length  uint32
	seq     uint64
	segment uint64
	cluster uint64
	chain   uint64
	first   uint64 // index of the first record; 0 if there is none
	count   uint32
	flags   uint32
	hard    hardState
}

// record is one raft entry of a frame. data aliases the frame's bytes.
type record struct {
	index, term uint64
	kind        raftpb.EntryType
	data        []byte
}

func pad(n, unit int) int { return (n + unit - 1) / unit * unit }

func saltCRC(salt uint64) uint32 { return uint32(salt) ^ uint32(salt>>32) }

// nextChain returns the checksum of all frames up to and including this one.
func nextChain(h *frameHeader, salt uint64, crc uint32) uint64 {
	x := h.chain
	for _, v := range [...]uint64{h.cluster, h.segment, salt, h.seq, uint64(crc)<<32 | uint64(h.length)} {
		hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, v^0xd6e8feb86659fd93)
		x = bits.RotateLeft64(x, 29) ^ hi ^ lo ^ v
	}
	return x
}

// frameSize is the length of a frame that holds entries.
func frameSize(entries []*raftpb.Entry) int {
	n := frameHeaderSize + trailerSize
	for _, e := range entries {
		n += recordSize(e)
	}
	return n
}

// recordSize is the length of an entry's record with its padding.
func recordSize(e *raftpb.Entry) int { return recordHeaderSize + pad(len(e.GetData()), 8) }

// appendFrame appends a frame and its padding to buf, whose length is a multiple of the sector
// size. It returns buf and the chain after the frame. It sets h.length, h.first and h.count.
func appendFrame(buf []byte, h *frameHeader, salt uint64, entries []*raftpb.Entry) ([]byte, uint64) {
	start := len(buf)
	h.length = uint32(frameSize(entries))
	h.count = uint32(len(entries))
	h.first = 0
	if len(entries) > 0 {
		h.first = entries[0].GetIndex()
	}
	buf = h.append(buf, salt)
	for _, e := range entries {
		buf = appendRecord(buf, e)
	}
	crc := crcUpdate(0, buf[start:])
	chain := nextChain(h, salt, crc)
	le := binary.LittleEndian
	buf = le.AppendUint32(buf, trailerMagic)
	buf = le.AppendUint32(buf, crc)
	buf = le.AppendUint64(buf, h.seq)
	buf = le.AppendUint64(buf, chain)
	return appendZeros(buf, pad(len(buf), sectorSize)-len(buf)), chain
}

func (h *frameHeader) append(buf []byte, salt uint64) []byte {
	le := binary.LittleEndian
	start := len(buf)
	buf = le.AppendUint32(buf, frameMagic)
	buf = le.AppendUint32(buf, h.length)
	for _, v := range [...]uint64{h.seq, h.segment, h.cluster, h.chain, h.first} {
		buf = le.AppendUint64(buf, v)
	}
	buf = le.AppendUint32(buf, h.count)
	buf = le.AppendUint32(buf, h.flags)
	for _, v := range [...]uint64{h.hard.term, h.hard.vote, h.hard.commit} {
		buf = le.AppendUint64(buf, v)
	}
	buf = appendZeros(buf, 12)
	return le.AppendUint32(buf, crcUpdate(saltCRC(salt), buf[start:]))
}

func appendRecord(buf []byte, e *raftpb.Entry) []byte {
	le := binary.LittleEndian
	start := len(buf)
	data := e.GetData()
	buf = le.AppendUint32(buf, uint32(len(data)))
	buf = le.AppendUint32(buf, 0)
	buf = le.AppendUint64(buf, e.GetIndex())
	buf = le.AppendUint64(buf, e.GetTerm()<<8|uint64(uint8(e.GetType())))
	buf = append(buf, data...)
	le.PutUint32(buf[start+4:], crcUpdate(0, buf[start+8:]))
	return appendZeros(buf, pad(len(data), 8)-len(data))
}

func appendZeros(buf []byte, n int) []byte {
	const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for ; n > len(zeros); n -= len(zeros) {
		buf = append(buf, zeros...)
	}
	return append(buf, zeros[:n]...)
}

// parseHeader reads a frame header; ok says that its magic and its salted crc are right.
func parseHeader(b []byte, salt uint64) (h frameHeader, ok bool) {
	le := binary.LittleEndian
	if len(b) < frameHeaderSize || le.Uint32(b) != frameMagic ||
		le.Uint32(b[92:]) != crcUpdate(saltCRC(salt), b[:92]) {
		return h, false
	}
	h = frameHeader{
		length: le.Uint32(b[4:]),
		seq:    le.Uint64(b[8:]), segment: le.Uint64(b[16:]), cluster: le.Uint64(b[24:]),
		chain: le.Uint64(b[32:]), first: le.Uint64(b[40:]),
		count: le.Uint32(b[48:]), flags: le.Uint32(b[52:]),
		hard: hardState{term: le.Uint64(b[56:]), vote: le.Uint64(b[64:]), commit: le.Uint64(b[72:])},
	}
	return h, true
}

// parseFrame reads the frame at the start of b, which may hold any bytes. Once it has found the
// whole frame intact, it calls each for every record, with the record's offset in b. It returns the
// chain after the frame; fault, if not empty, says what is wrong.
func parseFrame(b []byte, salt uint64, each func(off int, r record)) (h frameHeader, chain uint64, fault string) {
	h, ok := parseHeader(b, salt)
	if !ok {
		return h, 0, "no frame header"
	}
	n := int(h.length)
	if h.length < frameHeaderSize+trailerSize || h.length > frameSizeMax || n > len(b) {
		return h, 0, "frame longer than the file"
	}
	le := binary.LittleEndian
	t := b[n-trailerSize:]
	crc := crcUpdate(0, b[:n-trailerSize])
	chain = nextChain(&h, salt, crc)
	if le.Uint32(t) != trailerMagic || le.Uint32(t[4:]) != crc || le.Uint64(t[8:]) != h.seq || le.Uint64(t[16:]) != chain {
		return h, 0, "frame trailer or checksum wrong"
	}
	if fault := eachRecord(b[:n-trailerSize], &h, parseRecord, func(int, record) {}); fault != "" {
		return h, 0, fault
	}
	eachRecord(b[:n-trailerSize], &h, cutRecord, each)
	return h, chain, ""
}

func eachRecord(b []byte, h *frameHeader, parse func([]byte) (record, int, bool), each func(off int,
	r record)) (fault string) {
	off := frameHeaderSize
	for i := range uint64(h.count) {
		r, size, ok := parse(b[off:])
		if !ok || r.index != h.first+i {
			return "record wrong"
		}
		each(off, r)
		off += size
	}
	if off != len(b) {
		return "frame longer than its records"
	}
	return ""
}

// parseRecord reads the record at the start of b and returns its size with padding.
func parseRecord(b []byte) (r record, size int, ok bool) {
	r, size, ok = cutRecord(b)
	if !ok || binary.LittleEndian.Uint32(b[4:]) != crcUpdate(0, b[8:recordHeaderSize+len(r.data)]) {
		return record{}, 0, false
	}
	return r, size, true
}

// cutRecord is parseRecord without the checksum.
func cutRecord(b []byte) (r record, size int, ok bool) {
	le := binary.LittleEndian
	if len(b) < recordHeaderSize {
		return r, 0, false
	}
	n := int(le.Uint32(b))
	size = recordHeaderSize + pad(n, 8)
	if n > frameSizeMax || size > len(b) {
		return r, 0, false
	}
	kind := le.Uint64(b[16:])
	return record{
		index: le.Uint64(b[8:]), term: kind >> 8, kind: raftpb.EntryType(kind & 0xff),
		data: b[recordHeaderSize : recordHeaderSize+n : recordHeaderSize+n],
	}, size, true
}
