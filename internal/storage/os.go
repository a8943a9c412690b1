package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// OS is the operating system's file system.
type OS struct{}

type osFile struct{ *os.File }

// OpenFile opens an existing file for reading and writing.
func (OS) OpenFile(name string) (File, error) { return openOS(name, os.O_RDWR) }

// OpenRead opens an existing file for reading only.
func (OS) OpenRead(name string) (File, error) { return openOS(name, os.O_RDONLY) }

// Create creates an empty file with mode 0600, or truncates an existing one.
func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func openOS(name string, flag int) (File, error) {
	f, err := descriptors.open(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename moves a file within one directory.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove deletes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// ReadDir lists the names of a directory's plain files, sorted.
func (OS) ReadDir(dir string) ([]string, error) {
	d, err := descriptors.open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir makes all earlier creates, renames and removes in dir durable.
func (OS) SyncDir(dir string) error {
	d, err := descriptors.open(dir, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll creates dir and its parents with mode 0700, and makes their directory entries durable.
func (fs OS) MkdirAll(dir string) error {
	if st, err := os.Stat(dir); err == nil {
		if !st.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := fs.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fs.SyncDir(parent)
}

// Lock locks dir for this process with flock. The kernel unlocks it when the process dies, so no
// stale lock file can keep a server from starting.
func (OS) Lock(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		return nil, lockFailure(dir, err)
	}
	return dirLock{d}, nil
}

func lockFailure(dir string, err error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: another process holds this data directory (is the server running?): %w", dir, err)
	}
	return fmt.Errorf("lock %s: %w", dir, err)
}

// dirLock is the open directory that holds the lock.
type dirLock struct{ *os.File }

// Close unlocks the directory explicitly: a child process that is being started has a copy of the
// descriptor, and with it the lock, until its program runs.
func (d dirLock) Close() error {
	return errors.Join(unix.Flock(int(d.Fd()), unix.LOCK_UN), d.File.Close())
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Files returns how many files can still be created in dir's file system, and how many it can have, or 0 if it doesn't
// say, like btrfs.
func (OS) Files(dir string) (free, total uint64, err error) {
	st, err := statfs(dir)
	return st.Ffree, st.Files, err
}

// Free returns how many bytes this process may still use in dir's file system, and the file system's size.
func (OS) Free(dir string) (free, total uint64, err error) {
	st, err := statfs(dir)
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), err
}

func statfs(dir string) (st unix.Statfs_t, err error) {
	if err := unix.Statfs(dir, &st); err != nil {
		return st, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st, nil
}
