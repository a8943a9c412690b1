package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// keptSuffix is the suffix of small files in the log's directory that are replaced only as a whole.
const keptSuffix = ".kept"

// keptMax bounds the size of such a file, in bytes.
const keptMax = 1 << 20

// Keep durably replaces the content of the kept file of that name with b. After an error that is not a FatalError the
// file has its former content, and the log remains usable.
func (d *Dir) Keep(name string, b []byte) error {
	return d.small(func() error { return keepFile(d.fs, d.log.path, name, b) })
}

// Kept returns the content of the kept file of that name, or nil if there is none.
func (d *Dir) Kept(name string) ([]byte, error) { return KeptBefore(d.fs, d.log.path, name) }

// KeptBefore is Dir.Kept for a log directory that the server has not opened yet.
func KeptBefore(fsys FS, logDir, name string) ([]byte, error) {
	b, err := readBounded(fsys, filepath.Join(logDir, name+keptSuffix), keptMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// KeepBefore writes the kept file of that name in the log's directory of a server without data, before Open puts the
// directory in use.
func KeepBefore(fsys FS, logDir, name string, b []byte) error {
	if err := fsys.MkdirAll(logDir); err != nil {
		return fmt.Errorf("make the log directory: %w", err)
	}
	return keepFile(fsys, logDir, name, b)
}

func keepFile(fsys FS, logDir, name string, b []byte) error {
	path := filepath.Join(logDir, name+keptSuffix)
	if len(b) > keptMax {
		return fmt.Errorf("write %s: %d bytes, at most %d", path, len(b), keptMax)
	}
	return replaceFile(fsys, path, b)
}
