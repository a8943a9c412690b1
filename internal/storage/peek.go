package storage

import (
	"fmt"
	"io/fs"
)

// PeekSnapshot opens the newest snapshot of a data directory that need not be open, so that it can
// be read while Open verifies everything. Open may reject that snapshot: what was read counts only
// if NewestSnapshot then returns the same Meta. The error is fs.ErrNotExist if there is none.
func PeekSnapshot(fsys FS, dir string) (*Snapshot, error) {
	all, err := SnapshotIndexes(fsys, dir)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("open snapshot in %s: there is none: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return PeekSnapshotAt(fsys, dir, all[len(all)-1])
}

// NewestSnapshot returns the Meta of the newest verified snapshot; ok is false if there is none.
func (d *Dir) NewestSnapshot() (meta Meta, ok bool) {
	d.log.mu.RLock()
	defer d.log.mu.RUnlock()
	return d.log.snapshot, d.log.snapshot.Index != 0
}
