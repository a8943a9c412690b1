package storage

import (
	"fmt"
	"io"
	"path/filepath"
)

// Describe prints what the files of a data directory hold, without changing or locking anything: segments, batches,
// entries, snapshots, and where the first damage of each file is. fsys nil means OS. The error is that of w or of reading.
func Describe(w io.Writer, fsys FS, dir string) error {
	if fsys == nil {
		fsys = OS{}
	}
	p := &printer{w: w, fs: fsys}
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("describe %s: %w", dir, err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		err = nil
		if _, ok := numbered(name, segmentSuffix); ok {
			err = p.segment(path)
		} else if _, ok := numbered(name, snapshotSuffix); ok {
			err = p.snapshot(path)
		}
		if err != nil {
			return fmt.Errorf("describe %s: %w", path, err)
		}
	}
	return p.err
}

type printer struct {
	w   io.Writer
	fs  FS
	err error // the first of w
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) segment(path string) error {
	f, err := p.fs.OpenRead(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	b, err := readWhole(f, nil, size)
	if err != nil {
		return err
	}
	h, fault := parseSegmentHeader(b)
	p.line("segment %s, %d bytes", filepath.Base(path), size)
	if fault != "" {
		p.line("  damaged at offset 0: %s", fault)
		return nil
	}
	reset := ""
	if h.flags&flagReset != 0 {
		reset = ", starts anew after a snapshot"
	}
	p.line("  number %d, cluster %#x, after index %d term %d, after batch %d%s", h.number, h.cluster, h.prev.index, h.prev.term, h.seq, reset)
	p.frames(b, &h)
	return nil
}

func (p *printer) frames(b []byte, s *segmentHeader) {
	seq, chain, off := s.seq, s.chain, int64(segmentStart)
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
			seal = ", seal"
		}
		p.line("  batch %d at offset %d, %d bytes, %d entries, term %d vote %d commit %d%s",
			h.seq, off, h.length, h.count, h.hard.term, h.hard.vote, h.hard.commit, seal)
		for _, r := range records {
			p.line("    entry %d term %d %v %d bytes", r.index, r.term, r.kind, len(r.data))
		}
		seq, chain = h.seq, after
		off += int64(pad(int(h.length), sectorSize))
	}
	if at, later := laterFrame(b, off, s.salt, seq+1); at >= 0 {
		p.line("  damaged at offset %d: no batch %d, but batch %d at offset %d", off, seq+1, later, at)
		return
	}
	p.line("  end at offset %d", off)
}

func (p *printer) snapshot(path string) error {
	f, err := p.fs.OpenRead(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	p.line("snapshot %s, %d bytes", filepath.Base(path), size)
	layout, err := scanSnapshot(f, path, true)
	if err != nil {
		p.line("  %v", err)
		return nil
	}
	m := layout.meta
	p.line("  index %d term %d, cluster %#x, zxid %#x, digest %#x, feature level %d, body format %d",
		m.Index, m.Term, m.ClusterID, m.Zxid, m.Digest, m.FeatureLevel, m.BodyFormat)
	p.line("  voters %v learners %v", m.ConfState.GetVoters(), m.ConfState.GetLearners())
	p.line("  %d chunks, %d bytes decompressed, SHA-256 %x", len(layout.chunks), layout.footer.raw, layout.footer.sum)
	return nil
}
