package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// replaceFile durably replaces a file's content with b. After a crash the file has either its
// former content or b.
func replaceFile(fsys FS, path string, b []byte) error {
	f, err := fsys.Create(path + tmpSuffix)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Fdatasync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(path+tmpSuffix, path)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
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
		if err == nil {
			err = visit(paths[index], index, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
