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

func (d *Dir) keptPath(name string) string { return filepath.Join(d.log.path, name+keptSuffix) }

// Keep makes b the content of the kept file of that name, durably. An error leaves the one
// before, and the directory can be used on.
func (d *Dir) Keep(name string, b []byte) error {
	path := d.keptPath(name)
	if len(b) > keptMax {
		return fmt.Errorf("write %s: %d bytes, at most %d", path, len(b), keptMax)
	}
	return replaceFile(d.fs, path, b)
}

// Kept returns the content of the kept file of that name, nil if there is none.
func (d *Dir) Kept(name string) ([]byte, error) {
	b, err := readBounded(d.fs, d.keptPath(name), keptMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}
