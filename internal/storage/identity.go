package storage

import (
	"fmt"
	"path/filepath"
)

// identityName is a file that says that this directory was once in use. Its absence means nothing: it is made again. But
// with it and without a log, a log was lost.
const identityName = "IDENTITY"

func (l *Log) identityText() string {
	return fmt.Sprintf("zooid data directory\nformat %d\ncluster %016x\n", segmentFormat, l.cluster)
}

func (r *recovery) checkIdentity() error {
	if !r.identity {
		return nil
	}
	path := filepath.Join(r.path, identityName)
	f, err := r.fs.OpenRead(path)
	if err != nil {
		return fmt.Errorf("open identity: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("stat identity: %w", err)
	}
	want := r.identityText()
	b := make([]byte, min(size, int64(len(want))))
	if err := readFull(f, b, 0); err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	for i := range want {
		if i >= len(b) || b[i] != want[i] || size != int64(len(want)) && i == len(want)-1 {
			return damaged(path, int64(i), "want %q; the log is of cluster %#x", want, r.cluster)
		}
	}
	return nil
}

func (r *recovery) writeIdentity() error {
	path := filepath.Join(r.path, identityName)
	f, err := r.fs.Create(path + tmpSuffix)
	if err != nil {
		return &FatalError{"create", path, err}
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(r.identityText()), 0); err != nil {
		return &FatalError{"write", path, err}
	}
	if err := f.Fdatasync(); err != nil {
		return &FatalError{"fdatasync", path, err}
	}
	if err := r.fs.Rename(path+tmpSuffix, path); err != nil {
		return &FatalError{"rename", path, err}
	}
	if err := r.fs.SyncDir(r.path); err != nil {
		return &FatalError{"sync directory", r.path, err}
	}
	return nil
}
