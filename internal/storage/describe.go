package storage

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// Describe prints what the files of a data directory hold, without changing or locking anything: segments, batches,
// entries, snapshots, and where the first damage in each file is. If a server keeps its log elsewhere, dirs has both
// directories. fsys nil means OS. The error is w's or a read error, or a DamageError if the files are damaged. A batch
// that a crash has cut off at the log's end isn't damage: it was never acknowledged.
func Describe(w io.Writer, fsys FS, dirs ...string) error {
	if fsys == nil {
		fsys = OS{}
	}
	p := &printer{w: w, fs: fsys}
	for _, dir := range dirs {
		names, err := fsys.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("describe %s: %w", dir, err)
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			if n, ok := numbered(name, segmentSuffix); ok {
				err = p.segment(path, n)
			} else if n, ok := numbered(name, snapshotSuffix); ok {
				err = p.snapshot(path, n)
			}
			if err != nil {
				return fmt.Errorf("describe %s: %w", path, err)
			}
		}
	}
	if p.files == 0 {
		return errors.New("there are no log segments and no snapshots; is this the data directory?")
	}
	p.together()
	if p.err != nil {
		return p.err
	}
	return p.damage
}

type printer struct {
	w   io.Writer
	fs  FS
	err error // the first error of w

	files  int
	damage error      // the first damage
	log    bool       // there is a log
	base   uint64     // the index before the log's first entry
	commit uint64     // the highest commit index in the log
	newest uint64     // index of the newest snapshot, 0 for none
	last   segmentEnd // of the previous segment
}

// A segmentEnd is where a segment ends.
type segmentEnd struct {
	number uint64
	path   string
	off    int64
	seq    uint64 // of the last batch, not counting the seal
	chain  uint64
	index  uint64
	sealed bool
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// damaged prints damage of the current file.
func (p *printer) damaged(file string, off int64, format string, args ...any) {
	if p.damage == nil {
		p.damage = damaged(file, off, format, args...)
	}
	p.line("  damaged at offset %d: %s", off, fmt.Sprintf(format, args...))
}

// found prints damage that shows only by comparing files.
func (p *printer) found(err error) {
	if p.damage == nil {
		p.damage = err
	}
	p.line("%v", err)
}

func (p *printer) segment(path string, number uint64) error {
	b, err := readSegment(p.fs, path)
	if err != nil {
		return err
	}
	size := int64(len(b))
	h, err := parseSegmentHeader(path, b)
	p.files++
	p.line("segment %s, %d bytes", filepath.Base(path), size)
	switch {
	case err != nil:
		p.found(err)
		p.last = segmentEnd{}
		return nil
	case h.number != number:
		p.damaged(path, 0, "the file holds log segment %d", h.number)
	case uint64(size) < h.size:
		p.damaged(path, size, "log segment cut from %d bytes to %d", h.size, size)
	}
	reset := ""
	if h.flags&flagReset != 0 {
		reset = ", restarts after a snapshot"
	}
	p.line("  number %d, cluster %#x, after index %d term %d, after batch %d%s",
		h.number, h.cluster, h.prev.index, h.prev.term, h.seq, reset)
	p.follows(path, &h)
	p.frames(path, b, &h)
	return nil
}

// follows checks that a segment continues where the previous one ends.
func (p *printer) follows(path string, h *segmentHeader) {
	before := p.last
	switch {
	case !p.log || h.flags&flagReset != 0:
		p.log, p.base = true, h.prev.index
	case before.number == 0: // the previous segment is damaged, so its end isn't known
	case h.number != before.number+1:
		p.damaged(path, 0, "log segment %d is missing before it", h.number-1)
	case h.seq != before.seq || h.chain != before.chain:
		p.damaged(path, 0, "log segment follows batch %d, the one before it ends with batch %d", h.seq, before.seq)
	}
}

func (p *printer) frames(path string, b []byte, s *segmentHeader) {
	seq, chain, off := s.seq, s.chain, int64(segmentStart)
	t := segmentEnd{path: path, number: s.number, seq: seq, chain: chain, index: s.prev.index}
	for off < int64(len(b)) {
		h, ok := parseHeader(b[off:], s.salt)
		if !ok || h.seq != seq+1 || h.chain != chain {
			break
		}
		var records []record
		_, after, fault := parseFrame(b[off:], s.salt, func(_ int, r record) { records = append(records, r) })
		if fault != "" {
			p.line("  batch %d at offset %d: %s", h.seq, off, fault)
			break
		}
		seal := ""
		if h.flags&flagSeal != 0 {
			seal, t.sealed = ", seal", true
		}
		p.line("  batch %d at offset %d, %d bytes, %d entries, term %d vote %d commit %d%s",
			h.seq, off, h.length, h.count, h.hard.term, h.hard.vote, h.hard.commit, seal)
		for _, r := range records {
			p.line("    entry %d term %d %v %d bytes", r.index, r.term, r.kind, len(r.data))
			t.index = r.index
		}
		seq, chain = h.seq, after
		if seal == "" {
			t.seq, t.chain = seq, chain
		}
		p.commit = max(p.commit, h.hard.commit)
		off += int64(pad(int(h.length), sectorSize))
	}
	t.off, p.last = off, t
	if at, later := laterFrame(b, off, s.salt, seq+1); at >= 0 {
		p.damaged(path, off, "no batch %d, but batch %d at offset %d", seq+1, later, at)
		return
	}
	p.line("  end at offset %d", off)
}

// together checks that the files are consistent with each other.
func (p *printer) together() {
	if !p.log || p.last.number == 0 {
		return // the end of the log isn't known
	}
	end := p.last
	switch {
	case p.newest < p.base:
		p.found(damaged(end.path, 0, "the log begins after index %d, and no snapshot here that is whole reaches it; "+
			"if snapshots lie in another directory, name that, too", p.base))
	case end.sealed:
		p.found(damaged(end.path, end.off, "log segment %d is missing: this one is sealed", end.number+1))
	case p.commit > end.index:
		p.found(damaged(end.path, end.off, "the log ends at index %d, but %d was committed", end.index, p.commit))
	case p.newest > end.index:
		p.found(damaged(end.path, end.off, "the log ends at index %d, before the snapshot at %d", end.index, p.newest))
	}
}

func (p *printer) snapshot(path string, index uint64) error {
	f, err := p.fs.OpenRead(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	p.files++
	p.line("snapshot %s, %d bytes", filepath.Base(path), size)
	layout, err := scanSnapshot(f, path, true)
	if damage := (*DamageError)(nil); errors.As(err, &damage) {
		p.damaged(path, damage.Offset, "%s", damage.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	m := layout.meta
	p.line("  index %d term %d, cluster %#x, zxid %#x, digest %#x, feature level %d, body format %d",
		m.Index, m.Term, m.ClusterID, m.Zxid, m.Digest, m.FeatureLevel, m.BodyFormat)
	if m.Index != index {
		p.damaged(path, 0, "the file holds a snapshot at index %d", m.Index)
	}
	p.newest = max(p.newest, m.Index)
	p.line("  voters %v learners %v", m.ConfState.GetVoters(), m.ConfState.GetLearners())
	p.line("  %d chunks, %d bytes decompressed, SHA-256 %x", len(layout.chunks), layout.footer.raw, layout.footer.sum)
	return nil
}
