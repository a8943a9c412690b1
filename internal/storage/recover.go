package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// recovery is the state of one Open while it recovers the disk's content. First it only reads
// (list, verify, replay, connect); then, if nothing is wrong, it changes the disk (repair).
type recovery struct {
	*Log
	dir      *Dir
	leftover []string   // paths of unfinished files
	spare    []string   // names
	void     []*segment // closed, not removed yet
	verified map[uint64]Meta
	holdings map[string]*holding // by directory
	reserved bool

	window    window
	lastFrame int64  // offset of the last frame; 0 for the first frame of a segment, which includes the header
	content   []byte // of the active segment, from lastFrame to the end
	unsealed  int64  // offset of the missing seal in the segment before the active one; 0 if it isn't missing
}

func (d *Dir) recover() error {
	for _, dir := range d.dirs() {
		// Renames and removals of the last process may be visible but not durable yet.
		if err := syncDir(d.fs, dir); err != nil {
			return err
		}
	}
	r := newRecovery(d)
	if err := r.read(); err != nil {
		return err
	}
	if len(r.segments) == 0 {
		return r.create()
	}
	return r.repair()
}

func newRecovery(d *Dir) *recovery {
	return &recovery{Log: d.log, dir: d, verified: map[uint64]Meta{}, window: window{step: d.window},
		holdings: map[string]*holding{}}
}

// read reads the disk's content, and changes nothing. Without segments, the directories are new.
func (r *recovery) read() error {
	for _, dir := range r.dir.dirs() {
		if err := r.list(dir); err != nil {
			return err
		}
	}
	err := checkHoldings(r.dir.path, r.path, *r.holdings[r.dir.path], *r.holdings[r.path])
	for _, step := range []func() error{r.checkHeaders, r.checkIdentity, r.applyReset, r.replay, r.connect} {
		if err != nil || len(r.segments) == 0 {
			return err
		}
		err = step()
	}
	return err
}

// list classifies the files of one directory by their names. Unknown names are ignored.
func (r *recovery) list(dir string) error {
	names, err := r.fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read data directory: %w", err)
	}
	r.holdings[dir] = &holding{}
	for _, name := range names {
		r.holdings[dir].note(name)
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, tmpSuffix) {
			r.leftover = append(r.leftover, path)
		}
		if n, ok := numbered(name, snapshotSuffix); ok && dir == r.dir.path {
			r.dir.snapshots[n] = false
		}
		if dir != r.path {
			continue
		}
		n, ok := numbered(name, segmentSuffix)
		switch {
		case ok:
			f, err := r.fs.OpenFile(path)
			if err != nil {
				return fmt.Errorf("open log segment: %w", err)
			}
			s := &segment{segmentHeader: segmentHeader{number: n}, path: path, file: f, inPlace: f.InPlace(false)}
			r.segments = append(r.segments, s)
		case name == reserveName:
			r.reserved = true
		case strings.HasPrefix(name, sparePrefix) && !strings.HasSuffix(name, tmpSuffix):
			r.spare = append(r.spare, name)
		}
	}
	return nil
}

// create creates the first segment of a new directory.
func (r *recovery) create() error {
	if err := r.dir.checkRoom(); err != nil {
		return err
	}
	if err := r.clean(); err != nil {
		return err
	}
	spare, err := r.spares.take(r.firstSize(), r.firstSize())
	if err != nil {
		return err
	}
	s, chain, err := r.nextSegment(spare, 0, position{}, hardState{})
	if err != nil {
		return err
	}
	r.activate(s, chain)
	if err := syncDir(r.fs, r.path); err != nil {
		return err
	}
	return r.writeIdentities()
}

// checkHeaders reads every segment's header and checks that no segment is missing, cut short or from another cluster.
func (r *recovery) checkHeaders() error {
	b := make([]byte, sectorSize)
	for i, s := range r.segments {
		if i > 0 && s.number != r.segments[i-1].number+1 {
			// Some segments that a reset made void may be gone already: applyReset checks that.
			if reset, err := r.resetFrom(i); err != nil {
				return err
			} else if !reset {
				return damaged(filepath.Join(r.path, segmentName(r.segments[i-1].number+1)), 0,
					"the log segment is missing, later ones exist")
			}
		}
		size, err := s.file.Size()
		if err != nil {
			return fmt.Errorf("stat log segment %s: %w", s.path, err)
		}
		if size < segmentSizeMin {
			return damaged(s.path, size, "log segment cut to %d bytes", size)
		}
		if err := readFull(s.file, b, 0); err != nil {
			return fmt.Errorf("read log segment %s: %w", s.path, err)
		}
		h, err := parseSegmentHeader(s.path, b)
		switch {
		case err != nil:
			return err
		case h.cluster != r.cluster:
			return &ClusterError{File: s.path, Found: h.cluster, Wanted: r.cluster}
		case h.number != s.number:
			return damaged(s.path, 0, "the file holds log segment %d", h.number)
		case uint64(size) < h.size:
			return damaged(s.path, size, "log segment cut from %d bytes to %d", h.size, size)
		}
		s.segmentHeader, s.last = h, h.prev.index
	}
	return nil
}

// resetFrom reports whether segment i or a later one has the flag reset in its header on disk.
func (r *recovery) resetFrom(i int) (bool, error) {
	b := make([]byte, sectorSize)
	for _, s := range r.segments[i:] {
		err := readFull(s.file, b, 0)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, fmt.Errorf("read log segment %s: %w", s.path, err)
		}
		if h, wrong := parseSegmentHeader(s.path, b); err == nil && wrong == nil && h.flags&flagReset != 0 {
			return true, nil
		}
	}
	return false, nil
}

// applyReset completes or undoes the installation of a snapshot from a peer if there is a segment that resets the log.
// If the segment's snapshot exists too, the earlier segments are void; otherwise that segment is.
func (r *recovery) applyReset() error {
	at := -1
	for i, s := range r.segments {
		if s.flags&flagReset != 0 {
			at = i
		}
	}
	if at <= 0 {
		return nil
	}
	s := r.segments[at]
	if m, err := r.verify(s.prev.index); err == nil && m.Term == s.prev.term {
		r.segments = r.drop(r.segments[:at], r.segments[at:])
		return nil
	} else if err := r.passOver(err); err != nil {
		return err
	}
	for i := 1; i <= at; i++ {
		if r.segments[i].number != r.segments[i-1].number+1 {
			return damaged(r.dir.snapshotPath(s.prev.index), 0, "the log begins after this snapshot, which is missing or damaged")
		}
	}
	if at != len(r.segments)-1 {
		return damaged(r.dir.snapshotPath(s.prev.index), 0, "the log goes on after this snapshot, which is missing or damaged")
	}
	r.dir.notes.Undone = true
	r.segments = r.drop(r.segments[at:], r.segments[:at])
	return nil
}

// drop closes void segments, of which nothing counts, and returns the others. Repair removes the files.
func (r *recovery) drop(void, others []*segment) []*segment {
	for _, s := range void {
		s.file.Close()
	}
	r.void = void
	return others
}

// verify checks a snapshot file completely, once.
func (r *recovery) verify(index uint64) (Meta, error) {
	if m, ok := r.verified[index]; ok {
		return m, nil
	}
	m, err := r.dir.verify(index)
	if err == nil {
		r.verified[index] = m
	}
	return m, err
}

// verify checks a snapshot file completely.
func (d *Dir) verify(index uint64) (Meta, error) {
	path := d.snapshotPath(index)
	f, err := d.fs.OpenRead(path)
	if err != nil {
		return Meta{}, fmt.Errorf("open snapshot: %w", err)
	}
	defer f.Close()
	layout, err := scanSnapshot(f, path, true)
	if err != nil {
		return Meta{}, err
	}
	if m := layout.meta; m.Index != index || m.ClusterID != d.log.cluster {
		return Meta{}, damaged(path, 0, "the file holds a snapshot at index %d of cluster %#x", m.Index, m.ClusterID)
	}
	return layout.meta, nil
}

// connect finds the newest verified snapshot. It checks that the log continues from it, and that
// the log has everything that it must have had according to the snapshot and the HardState.
func (r *recovery) connect() error {
	active := r.segments[len(r.segments)-1]
	for _, index := range slices.Backward(slices.Sorted(maps.Keys(r.dir.snapshots))) {
		m, err := r.verify(index)
		if err := r.passOver(err); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		r.dir.addSnapshot(m)
		break
	}
	m := r.snapshot
	switch {
	case m.Index < r.base.index && r.dir.path != r.path && len(r.dir.snapshots) == 0:
		return &MissingError{Dir: r.dir.path, Other: r.path, Do: doRestore,
			Reason: fmt.Sprintf("the log begins after index %d, and the snapshots up to there are missing", r.base.index)}
	case m.Index < r.base.index:
		err := damaged(r.segments[0].path, 0, "the log begins after index %d, but no verified snapshot reaches it",
			r.base.index)
		return errors.Join(append([]error{err}, r.dir.notes.DamagedSnapshots...)...)
	case m.Index > r.lastIndex():
		return damaged(active.path, r.end, "the log ends at index %d, before the snapshot at %d: its last batch is lost",
			r.lastIndex(), m.Index)
	case m.Index > 0 && r.termOf(m.Index) != m.Term:
		return damaged(r.dir.snapshotPath(m.Index), 0, "the snapshot has term %d, the log's entry %d term %d", m.Term,
			m.Index, r.termOf(m.Index))
	case r.hard.commit > r.lastIndex():
		return damaged(active.path, r.end, "the log ends at index %d, but %d was committed", r.lastIndex(), r.hard.commit)
	}
	// The commit index is not synced on its own, so the snapshot may be ahead of it.
	r.hard.commit = max(r.hard.commit, m.Index)
	return nil
}

// passOver records the error of a damaged snapshot and returns nil, so that an older snapshot is
// tried. It returns a read error, which isn't damage: the next start may be able to read the file.
func (r *recovery) passOver(err error) error {
	damage := (*DamageError)(nil)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.As(err, &damage):
		return err
	}
	notes := &r.dir.notes
	if !slices.ContainsFunc(notes.DamagedSnapshots, func(e error) bool { return e.Error() == err.Error() }) {
		notes.DamagedSnapshots = append(notes.DamagedSnapshots, err)
	}
	return nil
}

// repair makes the directory ready for appends. Decisions of the recovery become durable
// before anything relies on them.
func (r *recovery) repair() error {
	for _, s := range r.void {
		if err := removeFile(r.fs, s.path); err != nil {
			return err
		}
	}
	if err := r.clean(); err != nil {
		return err
	}
	r.dir.notes.IdentityMissing = !r.holdings[r.path].identity
	r.dir.notes.NewDataDir = r.dir.path != r.path && !r.holdings[r.dir.path].identity
	if err := r.writeIdentities(); err != nil {
		return err
	}
	r.active = r.segments[len(r.segments)-1]
	if err := r.seal(); err != nil {
		return err
	}
	// The last frame was read, but may only be in memory: the process that wrote it may have died
	// because a sync failed. So it is written again and synced. The empty frame after it proves to the
	// next start that it is on the disk.
	err := r.ample(func() error {
		if _, err := r.active.file.WriteAt(r.content, r.lastFrame); err != nil {
			return failure("write", r.active.path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.sync(r.active, 0); err != nil {
		return err
	}
	return r.appendBatch(r.hard, nil)
}

// seal seals the segment before the active one, if a crash prevented that.
func (r *recovery) seal() error {
	if r.unsealed == 0 {
		return nil
	}
	s, before := r.active, r.segments[len(r.segments)-2]
	h := frameHeader{
		seq: s.seq + 1, segment: before.number, cluster: r.cluster, chain: s.chain, flags: flagSeal, hard: r.hard,
	}
	buf, _ := appendFrame(nil, &h, before.salt, nil)
	err := r.ample(func() error {
		if _, err := before.file.WriteAt(buf, r.unsealed); err != nil {
			return failure("write", before.path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.sync(before, len(buf))
}

// clean removes unfinished files and takes over spares and the reserve.
func (r *recovery) clean() error {
	for _, path := range r.leftover {
		if err := r.fs.Remove(path); err != nil {
			return &FatalError{"remove", path, err}
		}
	}
	if err := r.spares.adopt(r.spare); err != nil {
		return err
	}
	return r.dir.space.adopt(r.reserved)
}
