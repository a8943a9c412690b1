package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// Bytes whose checksums are right and whose contents are wrong: of another version, of a server that is at fault, or
// of somebody who means harm. TestDamage has those whose checksums are wrong.

var le = binary.LittleEndian

// TestForgedMeta: a snapshot's header says what it said when it was written, or is refused with the reason.
func TestForgedMeta(t *testing.T) {
	t.Parallel()
	meta := Meta{
		ClusterID: 1 << 40, Index: 2 << 40, Term: 3 << 40, Zxid: 4 << 40, Digest: 5 << 40,
		FeatureLevel: 6 << 20, BodyFormat: 7 << 20,
		ConfState: &raftpb.ConfState{
			Voters: []uint64{1, 2, 3}, Learners: []uint64{4}, VotersOutgoing: []uint64{5, 6}, LearnersNext: []uint64{7},
			AutoLeave: new(true),
		},
	}
	header := meta.append(nil)
	read, size, fault := parseMeta(append(slices.Clone(header), "what follows"...))
	if fault != "" || size != len(header) || !reflect.DeepEqual(read, meta) {
		t.Fatalf("read %+v of %d bytes, %s; written %+v of %d", read, size, fault, meta, len(header))
	}
	const lists = snapFixedSize
	for what, c := range map[string]struct {
		forge func(b []byte) []byte
		says  string
	}{
		"the first format":         {func(b []byte) []byte { le.PutUint32(b[8:], 1); return b }, ""},
		"no format":                {func(b []byte) []byte { le.PutUint32(b[8:], 0); return b }, "format 0"},
		"a newer format":           {func(b []byte) []byte { le.PutUint32(b[8:], snapFormat+1); return b }, "format 3"},
		"another file":             {func(b []byte) []byte { b[7]++; return b }, "not the start"},
		"a voter more than fits":   {func(b []byte) []byte { le.PutUint32(b[lists:], 13); return b }, "longer"},
		"voters beyond 32 bits":    {func(b []byte) []byte { le.PutUint32(b[lists:], 1<<29+3); return b }, "longer"},
		"a voter less":             {func(b []byte) []byte { le.PutUint32(b[lists:], 2); return b }, "longer"},
		"voters that take all":     {func(b []byte) []byte { le.PutUint32(b[lists:], 8); return b }, "longer"},
		"an answer beside yes, no": {func(b []byte) []byte { b[len(b)-5] = 2; return b }, "membership wrong"},
		"a byte more":              {func(b []byte) []byte { return append(b, 0) }, "membership wrong"},
		"a byte less":              {func(b []byte) []byte { return b[:len(b)-1] }, "membership wrong"},
	} {
		b := c.forge(slices.Clone(header))
		if le.PutUint32(b[12:], uint32(len(b))); len(b) > 4 {
			le.PutUint32(b[len(b)-4:], crcUpdate(0, b[:len(b)-4]))
		}
		if _, _, fault := parseMeta(b); (fault == "") != (c.says == "") || !strings.Contains(fault, c.says) {
			t.Errorf("%s: %q, want %q", what, fault, c.says)
		}
	}
	for what, c := range map[string]struct {
		length uint32 // as the header says
		has    int    // bytes
	}{
		"nothing":                {0, 0},
		"too little":             {uint32(len(header)), snapFixedSize - 1},
		"its end is missing":     {uint32(len(header)), len(header) - 1},
		"shorter than its lists": {snapFixedSize + 20, len(header)},
		"longer than any":        {snapHeaderMax + 1, snapHeaderMax + 1},
	} {
		b := append(slices.Clone(header), make([]byte, snapHeaderMax)...)
		le.PutUint32(b[12:], c.length)
		if n := int(c.length); n > 4 {
			le.PutUint32(b[n-4:], crcUpdate(0, b[:n-4]))
		}
		if _, _, fault := parseMeta(b[:c.has]); fault == "" {
			t.Errorf("%s: read", what)
		}
	}
}

// TestNewerSnapshot: a snapshot of a newer format is reported as that and not as damage, unless its header may be
// damaged. All that handles damage handles it.
func TestNewerSnapshot(t *testing.T) {
	t.Parallel()
	header := (&Meta{Index: 7, Term: 2, ConfState: &raftpb.ConfState{Voters: []uint64{1}}}).append(nil)
	for _, c := range []struct {
		format uint32
		whole  bool // the header's checksum is right
		newer  bool
	}{{snapFormat + 1, true, true}, {snapFormat + 1, false, false}, {0, true, false}} {
		b := forgedSnapshot(func(int, *chunkPlace) {}, func(*snapFooter) {}, nil)
		if le.PutUint32(b[8:], c.format); c.whole {
			le.PutUint32(b[len(header)-4:], crcUpdate(0, b[:len(header)-4]))
		}
		memory := NewMemFS()
		if err := memory.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		memory.Damage("data/0000000000000007.snap", func([]byte) []byte { return b })
		_, err := PeekSnapshot(memory, "data")
		says := err != nil && strings.Contains(err.Error(), "is of a newer version of Zooid") &&
			!strings.Contains(err.Error(), "is damaged")
		if says != c.newer || errors.As(err, new(*FormatError)) != c.newer || !errors.As(err, new(*DamageError)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNewerSnapshotIsNeeded: a start that needs a snapshot of a newer format says so. Nobody is told to give up the
// directory, which the newer version can read.
func TestNewerSnapshotIsNeeded(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	takeSnapshot(t, d, 50, []byte("x"))
	if _, n, err := d.Purge(1, 0); err != nil || n == 0 {
		t.Fatalf("%d segments are purged: %v", n, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	memory.Damage(d.snapshotPath(50), func(b []byte) []byte {
		le.PutUint32(b[8:], snapFormat+1)
		head := le.Uint32(b[12:])
		le.PutUint32(b[head-4:], crcUpdate(0, b[:head-4]))
		return b
	})
	_, err := Open(smallOptions(memory, 1))
	if !errors.As(err, new(*FormatError)) || strings.Contains(err.Error(), "Restore") {
		t.Errorf("opened: %v", err)
	}
}

// TestNewerLogIsNeeded: neither a start with a log of a newer format, nor what reads the log without changing it, says
// that it is damaged, also if IDENTITY is of a newer format, too.
func TestNewerLogIsNeeded(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := d.log.segments[0].path
	memory.Damage(path, func(b []byte) []byte {
		le.PutUint32(b[8:], segmentFormat+1)
		le.PutUint32(b[segmentCRCAt:], crcUpdate(0, b[:segmentCRCAt]))
		return b
	})
	newer := func(what string, err error) {
		t.Helper()
		if !errors.As(err, new(*FormatError)) || strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := Open(smallOptions(memory, 1))
	newer("open", err)
	newer("walk", Walk(memory, []string{"data"}, func(LogStep) error { return nil }))
	memory.Damage(filepath.Join("data", identityName), func(b []byte) []byte {
		return bytes.Replace(b, []byte("format 1"), []byte("format 2"), 1)
	})
	_, err = ReadIdentity(memory, "data", "")
	newer("read the identity", err)
}

// forgedSnapshot is a snapshot file of two chunks that parts of it can be wrong in while its checksums are right.
func forgedSnapshot(chunk func(n int, c *chunkPlace), foot func(f *snapFooter), behind []byte) []byte {
	meta := Meta{Index: 7, Term: 2, ConfState: &raftpb.ConfState{Voters: []uint64{1}}}
	b := meta.append(nil)
	f := snapFooter{chunks: 2}
	for n, stored := range []string{"stored bytes", strings.Repeat("more of them ", scanBuffer/8)} {
		c := chunkPlace{raw: 100, stored: uint32(len(stored)), crc: crcUpdate(0, []byte(stored))}
		f.raw += uint64(c.raw)
		chunk(n, &c)
		b = append(c.append(b, uint32(n)), stored...)
	}
	b = append(b, behind...)
	f.sum, f.length = sha256.Sum256(b), uint64(len(b)+snapFooterSize)
	foot(&f)
	return f.append(b)
}

// TestForgedSnapshots: what a snapshot's footer and the headers of its chunks say has to be what is there, however it
// is opened. What only reading all of it can tell is told when all of it is read.
func TestForgedSnapshots(t *testing.T) {
	t.Parallel()
	asIs, same := func(int, *chunkPlace) {}, func(*snapFooter) {}
	second := func(change func(*chunkPlace)) func(int, *chunkPlace) {
		return func(n int, c *chunkPlace) {
			if n == 1 {
				change(c)
			}
		}
	}
	foot := func(change func(*snapFooter)) []byte { return forgedSnapshot(asIs, change, nil) }
	good := foot(same)
	for what, c := range map[string]struct {
		bytes          []byte
		opened, reread bool
	}{
		"as it is":           {good, true, true},
		"a chunk less":       {foot(func(f *snapFooter) { f.chunks = 1 }), false, false},
		"a chunk more":       {foot(func(f *snapFooter) { f.chunks = 3 }), false, false},
		"chunks without end": {foot(func(f *snapFooter) { f.chunks = 1<<32 - 1 }), false, false},
		"a byte less":        {foot(func(f *snapFooter) { f.raw-- }), false, false},
		"a byte more":        {foot(func(f *snapFooter) { f.raw++ }), false, false},
		"a shorter file":     {foot(func(f *snapFooter) { f.length-- }), false, false},
		"a longer file":      {foot(func(f *snapFooter) { f.length++ }), false, false},
		"another sum":        {foot(func(f *snapFooter) { f.sum[31]++ }), true, false},
		"another checksum":   {forgedSnapshot(second(func(c *chunkPlace) { c.crc++ }), same, nil), true, false},
		"a chunk that reaches into the footer": {
			forgedSnapshot(second(func(c *chunkPlace) { c.stored++ }), same, nil), false, false},
		"a byte behind the last chunk":   {forgedSnapshot(asIs, same, []byte{0}), false, false},
		"a header behind the last chunk": {forgedSnapshot(asIs, same, make([]byte, chunkHeader)), false, false},
		"the largest chunk": {forgedSnapshot(func(_ int, c *chunkPlace) { c.raw = ChunkSizeMax },
			func(f *snapFooter) { f.raw = 2 * ChunkSizeMax }, nil), true, true},
		"a chunk too large": {forgedSnapshot(second(func(c *chunkPlace) { c.raw = ChunkSizeMax + 1 }),
			func(f *snapFooter) { f.raw = 100 + ChunkSizeMax + 1 }, nil), false, false},
		"no footer":                   {good[:len(good)-snapFooterSize], false, false},
		"less than header and footer": {good[:snapFixedSize+snapFooterSize-1], false, false},
		"nothing":                     {nil, false, false},
	} {
		fs := NewMemFS()
		fs.Damage("s", func([]byte) []byte { return append([]byte{}, c.bytes...) })
		file, err := fs.OpenRead("s")
		if err != nil {
			t.Fatal(err)
		}
		for _, whole := range []bool{false, true} {
			want := c.opened && !whole || c.reread && whole
			layout, err := scanSnapshot(file, "s", whole)
			if (err == nil) != want || err != nil && !errors.As(err, new(*DamageError)) {
				t.Errorf("%s, all of it read %v: %v", what, whole, err)
			}
			if err == nil && (len(layout.chunks) != 2 || layout.meta.Index != 7 || layout.footer.chunks != 2) {
				t.Errorf("%s: %+v", what, layout)
			}
		}
	}
}

// TestForgedChunkHeaders: a chunk's header counts in its place only.
func TestForgedChunkHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		magic, number, raw uint32
		ok, zstd           bool
	}{
		{chunkMagic, 5, 1, true, false}, {chunkMagicZstd, 5, 1, true, true}, {chunkMagic, 5, ChunkSizeMax, true, false},
		{chunkMagic, 4, 1, false, false}, {chunkMagic, 6, 1, false, false}, {chunkMagic + 1, 5, 1, false, false},
		{chunkMagicZstd + 1, 5, 1, false, false}, {chunkMagic, 5, ChunkSizeMax + 1, false, false},
	} {
		var b []byte
		for _, v := range []uint32{c.magic, c.number, c.raw, 77, 88} {
			b = le.AppendUint32(b, v)
		}
		b = le.AppendUint32(b, crcUpdate(0, b))
		place, ok := parseChunk(b, 5)
		if ok != c.ok || ok && place != (chunkPlace{raw: c.raw, stored: 77, crc: 88, zstd: c.zstd}) {
			t.Errorf("%+v: %+v, %v", c, place, ok)
		}
		b[20]++
		if _, ok := parseChunk(b, 5); ok {
			t.Errorf("%+v: its checksum is wrong", c)
		}
	}
}

// TestForgedFrames: a frame's header, records and trailer have to agree, each with its checksum right.
func TestForgedFrames(t *testing.T) {
	t.Parallel()
	const salt = 0x1234_5678_9abc_def0
	var entries []*raftpb.Entry
	for i := range uint64(3) {
		entries = append(entries, &raftpb.Entry{Index: new(100 + i), Term: new(uint64(9)), Type: raftpb.EntryNormal.Enum(),
			Data: []byte(strings.Repeat("d", 5+int(i)*8))})
	}
	h := frameHeader{seq: 11, segment: 12, cluster: 13, chain: 14, flags: flagSeal, hard: hardState{9, 2, 99}}
	frame, after := appendFrame(nil, &h, salt, entries)
	var records []record
	read, chain, fault := parseFrame(frame, salt, func(_ int, r record) { records = append(records, r) })
	if fault != "" || read != h || chain != after || len(records) != len(entries) {
		t.Fatalf("%q: header %+v, chain %x and %d records; written %+v, %x and %d", fault, read, chain, len(records), h,
			after, len(entries))
	}
	for i, r := range records {
		e := entries[i]
		if r.index != e.GetIndex() || r.term != 9 || r.kind != raftpb.EntryNormal || string(r.data) != string(e.Data) {
			t.Errorf("record %d is %+v", i, r)
		}
	}
	if len(frame)%sectorSize != 0 || int(h.length) > len(frame) || int(h.length) <= len(frame)-sectorSize {
		t.Errorf("a frame of %d bytes is padded to %d", h.length, len(frame))
	}
	header := func(change func(*frameHeader)) func([]byte) []byte {
		return func(b []byte) []byte {
			forged := h
			change(&forged)
			return append(forged.append(nil, salt), b[frameHeaderSize:]...)
		}
	}
	trailer := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[int(h.length)-trailerSize+at]++; return b }
	}
	const (
		first      = frameHeaderSize // of the records
		none, long = "no frame header", "longer than the file"
	)
	entry := func(change func(r []byte)) func([]byte) []byte {
		return func(b []byte) []byte {
			r := b[first : first+recordHeaderSize+5]
			change(r)
			le.PutUint32(r[4:], crcUpdate(0, r[8:]))
			return b
		}
	}
	for what, c := range map[string]struct {
		forge func([]byte) []byte
		seal  bool // the trailer's checksum and chain are right
		says  string
	}{
		"as it is": {func(b []byte) []byte { return b }, true, ""},
		"another salt": {
			func(b []byte) []byte { return append(h.append(nil, salt+1), b[frameHeaderSize:]...) }, true, none,
		},
		"another magic": {func(b []byte) []byte {
			b[0]++
			le.PutUint32(b[92:], crcUpdate(saltCRC(salt), b[:92]))
			return b
		}, true, none},
		"a cut header": {func(b []byte) []byte { return b[:frameHeaderSize-1] }, false, none},
		"no room for a trailer": {
			header(func(h *frameHeader) { h.length = frameHeaderSize + trailerSize - 1 }), false, long,
		},
		"beyond the largest frame": {header(func(h *frameHeader) { h.length = frameSizeMax + 1 }), false, long},
		"beyond the file":          {func(b []byte) []byte { return b[:h.length-1] }, false, long},
		"another trailer":          {trailer(0), false, "trailer"},
		"another checksum":         {trailer(4), false, "trailer"},
		"another number":           {trailer(8), false, "trailer"},
		"another chain":            {trailer(16), false, "trailer"},
		"another first":            {header(func(h *frameHeader) { h.first-- }), true, "record wrong"},
		"a record less":            {header(func(h *frameHeader) { h.count-- }), true, "longer than its records"},
		"a record more":            {header(func(h *frameHeader) { h.count++ }), true, "record wrong"},
		"another index":            {entry(func(r []byte) { r[8]++ }), true, "record wrong"},
		"a longer record":          {entry(func(r []byte) { le.PutUint32(r, 1000) }), true, "record wrong"},
		"an endless record":        {entry(func(r []byte) { le.PutUint32(r, frameSizeMax+1) }), true, "record wrong"},
		"another record's bytes":   {func(b []byte) []byte { b[first+recordHeaderSize]++; return b }, true, "record wrong"},
	} {
		b := c.forge(slices.Clone(frame))
		if forged, ok := parseHeader(b, salt); ok && c.seal {
			end := int(forged.length) - trailerSize
			crc := crcUpdate(0, b[:end])
			le.PutUint32(b[end+4:], crc)
			le.PutUint64(b[end+16:], nextChain(&forged, salt, crc))
		}
		told := 0
		_, _, fault := parseFrame(b, salt, func(int, record) { told++ })
		if (fault == "") != (c.says == "") || !strings.Contains(fault, c.says) || fault != "" && told > 0 {
			t.Errorf("%s: %q and %d records, want %q", what, fault, told, c.says)
		}
	}
}
