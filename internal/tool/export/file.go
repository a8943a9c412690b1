package export

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is the output of an export. It is a temporary file in the target's folder, renamed to the target when it is
// complete, or the target itself if that is a device or pipe.
type File struct {
	f      *os.File
	part   string // the temporary file's name, "" for none
	target string // with links resolved
	zip    *gzip.Writer
}

// CreateFile opens the file. If name is a link, CreateFile follows it and replaces the file that it points to; it
// refuses a link to nothing.
func CreateFile(name string, zipped bool) (*File, error) {
	e := &File{target: name}
	st, err := os.Stat(name)
	switch {
	case err == nil && !st.Mode().IsRegular():
		e.f, err = os.OpenFile(name, os.O_WRONLY, 0) // a file must not replace it
	case err == nil:
		e.target, err = filepath.EvalSymlinks(name)
	case errors.Is(err, fs.ErrNotExist):
		if _, linkErr := os.Lstat(name); linkErr == nil {
			return nil, fmt.Errorf("%s is a link to nothing: %w", name, err)
		}
		err = nil
	}
	if err == nil && e.f == nil {
		// CreateTemp uses O_EXCL and a name that can't be guessed, so nobody can put a link there.
		e.f, err = os.CreateTemp(filepath.Dir(e.target), filepath.Base(e.target)+".*"+partSuffix)
		if err == nil {
			e.part = e.f.Name()
		}
	}
	if err != nil {
		return nil, err
	}
	if zipped {
		e.zip = gzip.NewWriter(e.f)
	}
	return e, nil
}

// partSuffix is the end of the names of files that are being written.
const partSuffix = ".part"

// Write adds to the file.
func (e *File) Write(p []byte) (int, error) {
	if e.zip != nil {
		return e.zip.Write(p)
	}
	return e.f.Write(p)
}

// Finish writes everything to the disk and renames the file to the target. err is not nil if the export has failed.
// Then, or if Finish fails, no file is left.
func (e *File) Finish(err error) error {
	if err == nil && e.zip != nil {
		err = e.zip.Close()
	}
	if err == nil {
		// Pipes and most devices can't be synced.
		if err = e.f.Sync(); errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
			err = nil
		}
	}
	err = errors.Join(err, e.f.Close())
	if e.part == "" {
		return err
	}
	if err == nil {
		err = os.Rename(e.part, e.target)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(e.part)))
	}
	return syncFolder(filepath.Dir(e.target))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncFolder makes a rename durable.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("sync %s: %w", folder, err)
	}
	return nil
}

// Left returns the temporary files of exports to the same target that were killed or are still running.
func (e *File) Left() []string {
	names, err := filepath.Glob(filepath.Join(filepath.Dir(e.target), "*"+partSuffix))
	if err != nil {
		return nil // a folder with a pattern in its name: nothing to report
	}
	var own []string
	for _, name := range names {
		if ok, err := filepath.Match(filepath.Base(e.target)+".*"+partSuffix, filepath.Base(name)); ok && err == nil {
			own = append(own, name)
		}
	}
	return own
}
