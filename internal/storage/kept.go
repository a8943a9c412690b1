package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// keptSuffix is that of small files which lie beside the log and are replaced as a whole.
const keptSuffix = ".kept"

// keptMax bounds such a file in bytes.
const keptMax = 1 << 20

// Keep makes b the content of the kept file of that name, durably. An error leaves the one before, and the directory can be used
// on.
func (d *Dir) Keep(name string, b []byte) error {
	path := filepath.Join(d.log.path, name+keptSuffix)
	if len(b) > keptMax {
		return fmt.Errorf("write %s: %d bytes, at most %d", path, len(b), keptMax)
	}
	err := d.writeKept(path+tmpSuffix, b)
	if err == nil {
		err = d.fs.Rename(path+tmpSuffix, path)
	}
	if err == nil {
		err = d.fs.SyncDir(d.log.path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (d *Dir) writeKept(path string, b []byte) error {
	f, err := d.fs.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Fdatasync()
}

// Kept returns the content of the kept file of that name, nil if there is none.
func (d *Dir) Kept(name string) ([]byte, error) {
	path := filepath.Join(d.log.path, name+keptSuffix)
	f, err := d.fs.OpenRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil && size > keptMax {
		err = fmt.Errorf("%d bytes, at most %d", size, keptMax)
	}
	b := make([]byte, min(max(size, 0), keptMax))
	if err == nil {
		err = readFull(f, b, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
