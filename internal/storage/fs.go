package storage

import "io"

// FS is what this package needs from a file system. Names are paths. Only SyncDir makes directory entries durable.
//
// For a file system without room, errors satisfy NoRoom; for a file that doesn't exist, errors.Is(err, fs.ErrNotExist).
type FS interface {
	// OpenFile opens an existing file for reading and writing.
	OpenFile(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)
	// Create creates an empty file with mode 0600, or truncates an existing one.
	Create(name string) (File, error)
	// Rename moves a file within one directory, replacing the target, atomically.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(name string) error
	// ReadDir lists the names of a directory's plain files, sorted.
	ReadDir(dir string) ([]string, error)
	// SyncDir makes all earlier creates, renames and removes in dir durable.
	SyncDir(dir string) error
	// MkdirAll creates dir and its parents with mode 0700, and makes their directory entries durable.
	MkdirAll(dir string) error
	// Free returns how many bytes this process may still use in dir's file system, and the file system's size.
	Free(dir string) (free, total uint64, err error)
	// Files returns how many files can still be created in dir's file system, and how many it can have in total, or 0 if
	// it doesn't say.
	Files(dir string) (free, total uint64, err error)
	// Lock locks dir for this process until the Closer is closed, or fails at once.
	Lock(dir string) (io.Closer, error)
}

// File is an open file of an FS. ReadAt follows io.ReaderAt, WriteAt io.WriterAt.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the file's length.
	Truncate(size int64) error
	// Allocate reserves space and sets the length to at least size; the content is zeros.
	Allocate(size int64) error
	// Fdatasync makes the content and the length durable, not the file's name.
	Fdatasync() error
	// WriteOut waits until the disk has received the size bytes from off on, so that a later sync has
	// little left to do. It makes nothing durable, and does nothing on a system without such a call.
	// An error is as serious as one of Fdatasync.
	WriteOut(off, size int64) error
	// Size returns the file's length.
	Size() (int64, error)
	// Direct turns direct writes on or off. They bypass the system's page cache, which saves copying. It reports
	// whether writes are direct from then on. A direct write that isn't of whole pages, at a page boundary of the file
	// and from page-aligned memory, may fail with EINVAL; if the disk has stricter requirements, so may any other.
	Direct(on bool) bool
	// InPlace reports whether overwriting written data needs no more room, as far as known. If it needs more and ask is
	// set, InPlace asks the file system to overwrite this file in place, which works while the file is empty.
	InPlace(ask bool) bool
	// DropCache requests that later reads come from the disk rather than from memory.
	DropCache() error
}
