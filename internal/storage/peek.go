package storage

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// ReadIdentity returns the id of the cluster that a data directory belongs to. A directory that is not
// there, or was never made ready, gives an error that satisfies errors.Is(err, fs.ErrNotExist).
func ReadIdentity(fsys FS, dir string) (cluster uint64, err error) {
	path := filepath.Join(dir, identityName)
	f, err := fsys.OpenRead(path)
	if err != nil {
		return 0, fmt.Errorf("open identity: %w", err)
	}
	defer f.Close()
	want := (&Log{}).identityText()
	b := make([]byte, len(want))
	if err := readFull(f, b, 0); err != nil {
		return 0, fmt.Errorf("read identity %s: %w", path, err)
	}
	var format int
	if _, err := fmt.Sscanf(string(b), "zooid data directory\nformat %d\ncluster %x\n", &format, &cluster); err != nil || format != segmentFormat || cluster == 0 {
		return 0, damaged(path, 0, "want the form %q, found %q", want, b)
	}
	return cluster, nil
}

// PeekSnapshot opens the newest snapshot of a data directory that need not be open, so that it can be read while Open
// verifies all. Open may pass it over: what was made of it counts only if NewestSnapshot then returns the same
// Meta. The error is fs.ErrNotExist if there is none.
func PeekSnapshot(fsys FS, dir string) (*Snapshot, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	for _, name := range slices.Backward(names) { // the highest index is the last name
		if _, ok := numbered(name, snapshotSuffix); ok {
			return openSnapshot(fsys, filepath.Join(dir, name))
		}
	}
	return nil, fmt.Errorf("open snapshot in %s: there is none: %w", dir, fs.ErrNotExist)
}

// NewestSnapshot returns what the newest verified snapshot is of; ok is false if there is none.
func (d *Dir) NewestSnapshot() (meta Meta, ok bool) {
	d.log.mu.RLock()
	defer d.log.mu.RUnlock()
	return d.log.snapshot, d.log.snapshot.Index != 0
}
