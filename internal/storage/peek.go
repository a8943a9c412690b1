package storage

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// PeekSnapshot opens the newest snapshot of a data directory that need not be open, so that it can
// be read while Open verifies everything. Open may reject that snapshot: what was read counts only
// if NewestSnapshot then returns the same Meta. The error is fs.ErrNotExist if there is none.
func PeekSnapshot(fsys FS, dir string) (*Snapshot, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	for _, name := range slices.Backward(names) { // the last name has the highest index
		if _, ok := numbered(name, snapshotSuffix); ok {
			return openSnapshot(fsys, filepath.Join(dir, name))
		}
	}
	return nil, fmt.Errorf("open snapshot in %s: there is none: %w", dir, fs.ErrNotExist)
}

// NewestSnapshot returns the Meta of the newest verified snapshot; ok is false if there is none.
func (d *Dir) NewestSnapshot() (meta Meta, ok bool) {
	d.log.mu.RLock()
	defer d.log.mu.RUnlock()
	return d.log.snapshot, d.log.snapshot.Index != 0
}
