package storage

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// faultyFS is a MemFS of which every call can fail, also those that MemFS.Hook doesn't see: sizes, closes, dropped
// caches, locks, statfs. It counts the files and locks that are open.
type faultyFS struct {
	*MemFS
	// fail is called before each call; its error is the call's result. A failing close closes the file all the same, as
	// on Linux.
	fail func(Call) error

	mu    sync.Mutex
	files map[*memInode]int
	locks map[string]bool
}

func newFaultyFS(m *MemFS) *faultyFS {
	f := &faultyFS{MemFS: m, fail: func(Call) error { return nil }, files: map[*memInode]int{},
		locks: map[string]bool{}}
	m.Hook = func(c Call) error { return f.fail(c) }
	return f
}

// faulty returns what a call fails with: an error like those of package os, which names the file.
func faulty(c Call, err error) error { return &fs.PathError{Op: c.Op, Path: c.Name, Err: err} }

// leaks names the files and locks that are open.
func (f *faultyFS) leaks() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for inode, n := range f.files { // any order: names are sorted
		if n > 0 {
			names = append(names, inode.name)
		}
	}
	for dir := range f.locks { // any order: names are sorted
		names = append(names, "the lock of "+dir)
	}
	slices.Sort(names)
	return names
}

func (f *faultyFS) count(inode *memInode, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[inode] += by
}

func (f *faultyFS) locked(dir string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.locks, dir); on {
		f.locks[dir] = true
	}
}

func (f *faultyFS) opened(file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	inode := file.(*memFile).inode
	f.count(inode, 1)
	return &faultyFile{File: file, fs: f, inode: inode}, nil
}

func (f *faultyFS) OpenFile(name string) (File, error) { return f.opened(f.MemFS.OpenFile(name)) }
func (f *faultyFS) OpenRead(name string) (File, error) { return f.opened(f.MemFS.OpenRead(name)) }
func (f *faultyFS) Create(name string) (File, error)   { return f.opened(f.MemFS.Create(name)) }

func (f *faultyFS) Free(dir string) (free, total uint64, err error) {
	if err := f.fail(Call{Op: "free", Name: dir}); err != nil {
		return 0, 0, err
	}
	return f.MemFS.Free(dir)
}

func (f *faultyFS) Files(dir string) (free, total uint64, err error) {
	if err := f.fail(Call{Op: "files", Name: dir}); err != nil {
		return 0, 0, err
	}
	return f.MemFS.Files(dir)
}

func (f *faultyFS) Lock(dir string) (io.Closer, error) {
	if err := f.fail(Call{Op: "lock", Name: dir}); err != nil {
		return nil, err
	}
	lock, err := f.MemFS.Lock(dir)
	if err != nil {
		return nil, err
	}
	f.locked(dir, true)
	return &faultyLock{lock, f, dir}, nil
}

type faultyLock struct {
	io.Closer
	fs  *faultyFS
	dir string
}

func (l *faultyLock) Close() error {
	l.fs.locked(l.dir, false)
	return errors.Join(l.Closer.Close(), l.fs.fail(Call{Op: "unlock", Name: l.dir}))
}

type faultyFile struct {
	File
	fs     *faultyFS
	inode  *memInode
	closed bool
}

func (f *faultyFile) Close() error {
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.fs.count(f.inode, -1)
	return f.fs.fail(Call{Op: "close", Name: f.inode.name})
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.fs.fail(Call{Op: "size", Name: f.inode.name}); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultyFile) DropCache() error {
	if err := f.fs.fail(Call{Op: "dropcache", Name: f.inode.name}); err != nil {
		return err
	}
	return f.File.DropCache()
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	return f.File.WriteAt(p, off)
}
