package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"go.etcd.io/raft/v3/raftpb"
)

// A snapshot file is complete if its footer is valid. Its name is the raft index.
//
//	┌──────────────────────────────────────────────────────────────────────────────────┐
//	│ "ZOOIDSNP" format(4) length(4) cluster index term zxid digest (8 each)           │
//	│ level(4) body(4) ConfState: 4 × {count(4) ids(8 each)} autoLeave(1)      crc(4)  │ header, length bytes
//	├──────────────────────────────────────────────────────────────────────────────────┤
//	│ magic(4) number(4) raw length(4) stored length(4) crc of stored(4) crc of these(4)│ chunk, from number 0 on
//	│ stored bytes: an S2 block; in format 1, with another magic, zstd                 │
//	├──────────────────────────────────────────────────────────────────────────────────┤
//	│ ...                                                                              │
//	├──────────────────────────────────────────────────────────────────────────────────┤
//	│ "ZOOIDEND" chunks(4) zero(4) raw bytes(8) file length(8)                         │ footer, 72 bytes, at
//	│ SHA-256 of all before the footer(32)                             zero(4) crc(4)  │ the file's end
//	└──────────────────────────────────────────────────────────────────────────────────┘
//
// All numbers are little endian, all crcs are CRC32-C. The SHA-256 covers the whole file: it also
// tells a receiver that parts fetched on several connections belong together.
const (
	snapMagic      = "ZOOIDSNP"
	snapEndMagic   = "ZOOIDEND"
	snapFormat     = 2
	chunkMagic     = 0x31534843 // "CHS1"
	chunkMagicZstd = 0x315a4843 // "CHZ1"
	snapFixedSize  = 64
	chunkHeader    = 24
	snapFooterSize = 72
	snapshotSuffix = ".snap"

	// snapHeaderMax bounds the header; it has room for a membership of thousands.
	snapHeaderMax = 64 << 10

	// scanBuffer is how much verification reads at a time. A forged length doesn't make it allocate more.
	scanBuffer = 32 << 10

	// ChunkSizeMax bounds one chunk before compression, and so the memory that a reader needs per goroutine. Most
	// chunks have 64 KiB; a chunk that ends with a znode as large as the largest request has more.
	ChunkSizeMax = 32 << 20
)

// Meta describes a snapshot.
type Meta struct {
	Index, Term  uint64            // of the last raft entry whose effects the snapshot holds
	ConfState    *raftpb.ConfState // membership as of Index
	ClusterID    uint64            // set by CreateSnapshot
	Zxid         int64             // of the last transaction in the snapshot
	Digest       uint64            // of the whole replicated state
	FeatureLevel uint32            // in force at Index
	BodyFormat   uint32            // of the chunks' content; not interpreted here
}

func (m *Meta) confState() *raftpb.ConfState {
	c := &raftpb.ConfState{AutoLeave: new(m.ConfState.GetAutoLeave())}
	c.Voters = append(c.Voters, m.ConfState.GetVoters()...)
	c.Learners = append(c.Learners, m.ConfState.GetLearners()...)
	c.VotersOutgoing = append(c.VotersOutgoing, m.ConfState.GetVotersOutgoing()...)
	c.LearnersNext = append(c.LearnersNext, m.ConfState.GetLearnersNext()...)
	return c
}

func (m *Meta) append(buf []byte) []byte {
	le := binary.LittleEndian
	buf = append(buf, snapMagic...)
	buf = le.AppendUint32(buf, snapFormat)
	buf = le.AppendUint32(buf, 0)
	for _, v := range [...]uint64{m.ClusterID, m.Index, m.Term, uint64(m.Zxid), m.Digest} {
		buf = le.AppendUint64(buf, v)
	}
	buf = le.AppendUint32(buf, m.FeatureLevel)
	buf = le.AppendUint32(buf, m.BodyFormat)
	c := m.ConfState
	for _, ids := range [...][]uint64{c.GetVoters(), c.GetLearners(), c.GetVotersOutgoing(), c.GetLearnersNext()} {
		buf = le.AppendUint32(buf, uint32(len(ids)))
		for _, id := range ids {
			buf = le.AppendUint64(buf, id)
		}
	}
	autoLeave := byte(0)
	if c.GetAutoLeave() {
		autoLeave = 1
	}
	buf = append(buf, autoLeave)
	le.PutUint32(buf[12:], uint32(len(buf)+4))
	return le.AppendUint32(buf, crcUpdate(0, buf))
}

// parseMeta parses a snapshot's header at the start of b; size is the header's length. If there is a fault, size is 0
// unless the header is whole and of a newer format.
func parseMeta(b []byte) (m Meta, size int, fault string) {
	le := binary.LittleEndian
	if len(b) < snapFixedSize || string(b[:8]) != snapMagic {
		return m, 0, "not the start of a snapshot"
	}
	size = int(le.Uint32(b[12:]))
	if size < snapFixedSize+21 || size > min(len(b), snapHeaderMax) ||
		le.Uint32(b[size-4:]) != crcUpdate(0, b[:size-4]) {
		return m, 0, "checksum of the snapshot header wrong"
	}
	if f := le.Uint32(b[8:]); f > snapFormat {
		return m, size, fmt.Sprintf("snapshot format %d; this version reads formats 1 to %d", f, snapFormat)
	} else if f == 0 {
		return m, 0, "snapshot format 0"
	}
	m = Meta{
		ClusterID: le.Uint64(b[16:]), Index: le.Uint64(b[24:]), Term: le.Uint64(b[32:]),
		Zxid: int64(le.Uint64(b[40:])), Digest: le.Uint64(b[48:]),
		FeatureLevel: le.Uint32(b[56:]), BodyFormat: le.Uint32(b[60:]),
	}
	rest := b[snapFixedSize : size-4]
	c := &raftpb.ConfState{}
	for _, ids := range [...]*[]uint64{&c.Voters, &c.Learners, &c.VotersOutgoing, &c.LearnersNext} {
		if len(rest) < 4 || uint64(le.Uint32(rest))*8 > uint64(len(rest)-4) {
			return m, 0, "membership list longer than the snapshot header"
		}
		n := le.Uint32(rest)
		rest = rest[4:]
		for range n {
			*ids = append(*ids, le.Uint64(rest))
			rest = rest[8:]
		}
	}
	if len(rest) != 1 || rest[0] > 1 {
		return m, 0, "membership wrong"
	}
	c.AutoLeave = new(rest[0] == 1)
	m.ConfState = c
	return m, size, ""
}

// chunkPlace says where a chunk's stored bytes are in the file.
type chunkPlace struct {
	off         int64
	raw, stored uint32
	crc         uint32
	zstd        bool // compressed with zstd instead of S2, as in format 1
}

func (c *chunkPlace) append(buf []byte, number uint32) []byte {
	le := binary.LittleEndian
	start := len(buf)
	for _, v := range [...]uint32{chunkMagic, number, c.raw, c.stored, c.crc} {
		buf = le.AppendUint32(buf, v)
	}
	return le.AppendUint32(buf, crcUpdate(0, buf[start:]))
}

func parseChunk(b []byte, number uint32) (c chunkPlace, ok bool) {
	le := binary.LittleEndian
	magic := le.Uint32(b)
	if magic != chunkMagic && magic != chunkMagicZstd || le.Uint32(b[4:]) != number ||
		le.Uint32(b[20:]) != crcUpdate(0, b[:20]) {
		return c, false
	}
	c = chunkPlace{raw: le.Uint32(b[8:]), stored: le.Uint32(b[12:]), crc: le.Uint32(b[16:]), zstd: magic == chunkMagicZstd}
	return c, c.raw <= ChunkSizeMax
}

// snapFooter is a snapshot's last 72 bytes.
type snapFooter struct {
	chunks uint32
	raw    uint64
	length uint64
	sum    [sha256.Size]byte
}

func (f *snapFooter) append(buf []byte) []byte {
	le := binary.LittleEndian
	start := len(buf)
	buf = append(buf, snapEndMagic...)
	buf = le.AppendUint32(buf, f.chunks)
	buf = le.AppendUint32(buf, 0)
	buf = le.AppendUint64(buf, f.raw)
	buf = le.AppendUint64(buf, f.length)
	buf = append(buf, f.sum[:]...)
	buf = le.AppendUint32(buf, 0)
	return le.AppendUint32(buf, crcUpdate(0, buf[start:]))
}

func parseFooter(b []byte) (f snapFooter, ok bool) {
	le := binary.LittleEndian
	if len(b) != snapFooterSize || string(b[:8]) != snapEndMagic || le.Uint32(b[68:]) != crcUpdate(0, b[:68]) {
		return f, false
	}
	f = snapFooter{chunks: le.Uint32(b[8:]), raw: le.Uint64(b[16:]), length: le.Uint64(b[24:])}
	copy(f.sum[:], b[32:])
	return f, true
}

// snapLayout is a snapshot file's structure, as scanSnapshot found it.
type snapLayout struct {
	meta   Meta
	footer snapFooter
	chunks []chunkPlace
}

// scanSnapshot reads a snapshot file, which may hold any bytes, and checks it. Unless whole is set, it doesn't check
// the chunks' stored bytes and the SHA-256. If something is wrong, the error is a DamageError.
func scanSnapshot(f File, path string, whole bool) (*snapLayout, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	if size < snapFixedSize+snapFooterSize {
		return nil, damaged(path, size, "snapshot cut to %d bytes", size)
	}
	b := make([]byte, snapFixedSize)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("read %s at offset 0: %w", path, err)
	}
	if n := int64(binary.LittleEndian.Uint32(b[12:])); n > snapFixedSize && n <= min(size-snapFooterSize, snapHeaderMax) {
		b = make([]byte, n)
		if err := readFull(f, b, 0); err != nil {
			return nil, fmt.Errorf("read %s at offset 0: %w", path, err)
		}
	}
	meta, n, fault := parseMeta(b)
	if fault != "" && n > 0 {
		return nil, &FormatError{DamageError{File: path, Reason: fault}}
	} else if fault != "" {
		return nil, damaged(path, 0, "%s", fault)
	}
	s := &snapLayout{meta: meta}
	end := size - snapFooterSize
	foot := make([]byte, snapFooterSize)
	if err := readFull(f, foot, end); err != nil {
		return nil, fmt.Errorf("read %s at offset %d: %w", path, end, err)
	}
	ok := false
	if s.footer, ok = parseFooter(foot); !ok || s.footer.length != uint64(size) {
		return nil, damaged(path, end, "no snapshot footer, or of a file of another length")
	}
	sum := sha256.New()
	sum.Write(b[:n])
	if err := s.scanChunks(f, path, scanRange{int64(n), end, whole}, sum); err != nil {
		return nil, err
	}
	if whole && [sha256.Size]byte(sum.Sum(nil)) != s.footer.sum {
		return nil, damaged(path, end, "SHA-256 of the snapshot wrong")
	}
	return s, nil
}

// scanRange is the part of a snapshot file that holds chunks; whole says to check their bytes too.
type scanRange struct {
	off, end int64
	whole    bool
}

func (s *snapLayout) scanChunks(f File, path string, r scanRange, sum hash.Hash) error {
	raw := uint64(0)
	head := make([]byte, chunkHeader)
	scratch := make([]byte, scanBuffer)
	if int64(s.footer.chunks) > (r.end-r.off)/chunkHeader {
		return damaged(path, r.end, "footer counts %d chunks, more than fit", s.footer.chunks)
	}
	s.chunks = make([]chunkPlace, 0, s.footer.chunks)
	off := r.off
	for off < r.end {
		if r.end-off < chunkHeader || len(s.chunks) == cap(s.chunks) {
			return damaged(path, off, "more chunks than the footer counts, or the last one cut")
		}
		if err := readFull(f, head, off); err != nil {
			return fmt.Errorf("read %s at offset %d: %w", path, off, err)
		}
		c, ok := parseChunk(head, uint32(len(s.chunks)))
		if c.off = off + chunkHeader; !ok || c.off+int64(c.stored) > r.end {
			return damaged(path, off, "header of chunk %d wrong", len(s.chunks))
		}
		if r.whole {
			sum.Write(head)
			if err := c.check(f, path, scratch, sum); err != nil {
				return err
			}
		}
		raw += uint64(c.raw)
		s.chunks = append(s.chunks, c)
		off = c.off + int64(c.stored)
	}
	if off != r.end || uint32(len(s.chunks)) != s.footer.chunks || raw != s.footer.raw {
		return damaged(path, r.end, "footer counts %d chunks, %d bytes; the snapshot has %d, %d",
			s.footer.chunks, s.footer.raw, len(s.chunks), raw)
	}
	return nil
}

// check reads a chunk's stored bytes, adds them to sum and compares their crc.
func (c *chunkPlace) check(f File, path string, scratch []byte, sum hash.Hash) error {
	crc := uint32(0)
	for done := uint32(0); done < c.stored; {
		b := scratch[:min(uint64(len(scratch)), uint64(c.stored-done))]
		if err := readFull(f, b, c.off+int64(done)); err != nil {
			return fmt.Errorf("read %s at offset %d: %w", path, c.off+int64(done), err)
		}
		crc = crcUpdate(crc, b)
		sum.Write(b)
		done += uint32(len(b))
	}
	if crc != c.crc {
		return damaged(path, c.off, "checksum of a chunk wrong")
	}
	return nil
}
