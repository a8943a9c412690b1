package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// replaceFile durably replaces a file's content with b. After a crash the file has either its
// former content or b. After a FatalError that isn't known, and the same must not be tried again (room.go).
func replaceFile(fsys FS, path string, b []byte) error {
	f, err := fsys.Create(path + tmpSuffix)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	op := "write"
	if _, err = f.WriteAt(b, 0); err == nil {
		op, err = "fdatasync", f.Fdatasync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		op, err = "rename", fsys.Rename(path+tmpSuffix, path)
	}
	if NoRoom(err) {
		fsys.Remove(path + tmpSuffix) // it must not be synced again; if it stays, the next start removes it
	}
	if err != nil {
		return failure(op, path, err)
	}
	return syncDir(fsys, filepath.Dir(path))
}

// removeFile durably removes a file.
func removeFile(fsys FS, path string) error {
	if err := fsys.Remove(path); err != nil {
		return &FatalError{"remove", path, err}
	}
	return syncDir(fsys, filepath.Dir(path))
}

// syncDir makes a directory's entries durable.
func syncDir(fsys FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return &FatalError{"sync directory", dir, err}
	}
	return nil
}

// small does a change of the small files in the log's directory, unless the log has ended. A disk that fails it ends
// the log: what is on the disk isn't known, and trying again would prove nothing.
func (d *Dir) small(change func() error) error {
	err := d.log.Err()
	if err == nil {
		err = change()
	}
	if fatal := (*FatalError)(nil); errors.As(err, &fatal) {
		d.log.fail(err)
	}
	return err
}

// fileSize returns a file's length.
func fileSize(fsys FS, path string) (int64, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// readBounded returns a file's content, or an error if the file has more than most bytes.
func readBounded(fsys FS, path string, most int64) ([]byte, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	if size > most {
		return nil, fmt.Errorf("read %s: it has %d bytes, at most %d are right", path, size, most)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// eachEntryFile calls visit with the content of the files entry-N with a suffix in a directory, by ascending N. It
// fails if one has more than most bytes.
func eachEntryFile(
	fsys FS, dir, suffix string, most int64, visit func(path string, index uint64, b []byte) error,
) error {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	paths, indexes := map[uint64]string{}, []uint64{}
	for _, name := range names {
		if !strings.HasPrefix(name, entryPrefix) || !strings.HasSuffix(name, suffix) {
			continue
		}
		digits := name[len(entryPrefix) : len(name)-len(suffix)]
		index, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || strconv.FormatUint(index, 10) != digits {
			return fmt.Errorf("read %s: its name has no entry's number; move it elsewhere", filepath.Join(dir, name))
		}
		paths[index], indexes = filepath.Join(dir, name), append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		b, err := readBounded(fsys, paths[index], most)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed, which says nothing about the others
		}
		if err == nil {
			err = visit(paths[index], index, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
