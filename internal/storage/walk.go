package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// A LoggedEntry is one entry of the log in a data directory.
type LoggedEntry struct {
	Index, Term uint64
	Consensus   bool   // it only concerns consensus: a change of membership
	Data        []byte // valid until Walk's visit returns
}

// A LogStep is one step of Walk: the beginning of a segment, or a batch of entries.
type LogStep struct {
	// Cluster and After are from the segment's header: its first entry is the one after index After.
	// Reset says that everything before the segment is void: a snapshot at After replaces it.
	Cluster, After uint64
	Begins, Reset  bool
	// Entries are the entries of a batch. They replace earlier entries with the same or a higher index.
	Entries []LoggedEntry
	// Committed is the highest commit index in the log so far.
	Committed uint64
}

// Walk reads the log of a data directory, without changing or locking anything, and calls visit for each segment and
// each batch. It ends at the first incomplete batch; Describe tells whether that is the end of the log. If a server
// keeps its log elsewhere, dirs has both directories. fsys nil means OS.
func Walk(fsys FS, dirs []string, visit func(LogStep) error) error {
	if fsys == nil {
		fsys = OS{}
	}
	before := segmentEnd{}
	return eachSegment(fsys, dirs, func(path string, number uint64) (goesOn bool, err error) {
		if goesOn, err = walkSegment(fsys, path, number, &before, visit); err != nil {
			err = fmt.Errorf("read %s: %w", path, err)
		}
		return goesOn, err
	})
}

// eachSegment calls visit for each log segment in directories, in order, until it fails or returns false.
func eachSegment(fsys FS, dirs []string, visit func(path string, number uint64) (goesOn bool, err error)) error {
	for _, dir := range dirs {
		names, err := fsys.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("read the log in %s: %w", dir, err)
		}
		for _, name := range names {
			if n, ok := numbered(name, segmentSuffix); ok {
				if goesOn, err := visit(filepath.Join(dir, name), n); err != nil || !goesOn {
					return err
				}
			}
		}
	}
	return nil
}

// walkSegment reads one segment. It returns false if the log doesn't continue after it.
func walkSegment(fsys FS, path string, number uint64, before *segmentEnd,
	visit func(LogStep) error) (goesOn bool, err error) {
	b, err := readSegment(fsys, path)
	if err != nil {
		return false, err
	}
	s, err := parseSegmentHeader(path, b)
	reset := s.flags&flagReset != 0
	if errors.As(err, new(*FormatError)) {
		return false, err
	}
	if err != nil || s.number != number {
		return false, nil
	}
	if before.number != 0 && !reset && (s.number != before.number+1 || s.seq != before.seq || s.chain != before.chain) {
		return false, nil
	}
	step := LogStep{Cluster: s.cluster, After: s.prev.index, Begins: true, Reset: reset}
	if err := visit(step); err != nil {
		return false, err
	}
	step.Begins, step.Reset = false, false
	*before = segmentEnd{number: s.number, seq: s.seq, chain: s.chain}
	for off := int64(segmentStart); off < int64(len(b)); {
		h, ok := parseHeader(b[off:], s.salt)
		if !ok || h.seq != before.seq+1 || h.chain != before.chain || h.flags&flagSeal != 0 {
			break
		}
		step.Entries = step.Entries[:0]
		_, chain, fault := parseFrame(b[off:], s.salt, func(_ int, r record) {
			step.Entries = append(step.Entries, LoggedEntry{r.index, r.term, r.kind != raftpb.EntryNormal, r.data})
		})
		if fault != "" {
			return false, nil
		}
		step.Committed = max(step.Committed, h.hard.commit)
		if err := visit(step); err != nil {
			return false, err
		}
		before.seq, before.chain = h.seq, chain
		off += int64(pad(int(h.length), sectorSize))
	}
	return true, nil
}

// segmentReadMax bounds the size of a segment that is read completely: the largest batch, with room to spare.
const segmentReadMax = frameSizeMax + 1<<30

// readSegment reads a segment completely, for tools.
func readSegment(fsys FS, path string) ([]byte, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > segmentReadMax {
		return nil, damaged(path, segmentReadMax, "%d bytes, more than any log segment has", size)
	}
	return readWhole(f, nil, size)
}

// SnapshotIndexes returns the indexes of the snapshots in a data directory, ascending. It doesn't check the files.
func SnapshotIndexes(fsys FS, dir string) (all []uint64, err error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	for _, name := range names {
		if n, ok := numbered(name, snapshotSuffix); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// PeekSnapshotAt is PeekSnapshot for the snapshot at an index.
func PeekSnapshotAt(fsys FS, dir string, index uint64) (*Snapshot, error) {
	return openSnapshot(fsys, filepath.Join(dir, fmt.Sprintf("%016x%s", index, snapshotSuffix)))
}

// A Torn is a batch at the end of the log that a crash has cut off.
type Torn struct {
	File   string
	Offset int64  // where the batch begins
	Bytes  []byte // the existing part of the batch
}

// TornTail returns the torn batch at the log's end; File is "" if there is none. Describe must have found no damage.
func TornTail(fsys FS, dirs ...string) (t Torn, err error) {
	var last struct {
		path   string
		number uint64
	}
	if err := eachSegment(fsys, dirs, func(path string, number uint64) (bool, error) {
		if number >= last.number {
			last.path, last.number = path, number
		}
		return true, nil
	}); err != nil || last.path == "" {
		return t, err
	}
	b, err := readSegment(fsys, last.path)
	if err != nil {
		return t, fmt.Errorf("read %s: %w", last.path, err)
	}
	s, err := parseSegmentHeader(last.path, b)
	if err != nil {
		return t, err
	}
	seq, chain := s.seq, s.chain
	for off := int64(segmentStart); off < int64(len(b)); {
		h, ok := parseHeader(b[off:], s.salt)
		if !ok || h.seq != seq+1 || h.flags&flagSeal != 0 {
			break
		}
		_, after, fault := parseFrame(b[off:], s.salt, func(int, record) {})
		if fault != "" || h.chain != chain {
			end := min(off+int64(h.length), int64(len(b)))
			return Torn{last.path, off, slices.Clone(b[off:end])}, nil
		}
		seq, chain = h.seq, after
		off += int64(pad(int(h.length), sectorSize))
	}
	return t, nil
}
