package storage

import "io"

// FS is everything this package asks of a file system. Names are paths;
// directories are made durable by SyncDir and by nothing else.
//
// An error that is a full disk satisfies errors.Is(err, syscall.ENOSPC), a file
// that is not there errors.Is(err, fs.ErrNotExist).
type FS interface {
	// OpenFile opens an existing file for reading and writing.
	OpenFile(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)
	// Create makes an empty file of mode 0600, dropping a former one's content.
	Create(name string) (File, error)
	// Rename moves a file within one directory, replacing the target, atomically.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(name string) error
	// ReadDir lists the names of a directory's plain files, sorted.
	ReadDir(dir string) ([]string, error)
	// SyncDir makes all earlier creates, renames and removes in dir durable.
	SyncDir(dir string) error
	// MkdirAll makes dir and its parents, mode 0700, and their entries durable.
	MkdirAll(dir string) error
	// Free tells the bytes of dir's file system that this process may still use, and its size.
	Free(dir string) (free, total uint64, err error)
	// Lock takes dir for this process until the Closer is closed, or fails at once.
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
	// WriteOut returns when the disk has taken the bytes written from off on, so that a later sync finds few left. It
	// makes nothing durable, and does nothing where the system knows no such request; its error counts like Fdatasync's.
	WriteOut(off, size int64) error
	// Size is the file's length.
	Size() (int64, error)
	// Direct asks that writes go past the system's memory to the disk, which spares copying them, or that they don't. It
	// reports whether that is so from now on. Then a write of other than whole pages, at a whole page's offset and from
	// page-aligned memory, may fail with EINVAL, and where the disk wants more than that such a one too.
	Direct(on bool) bool
	// DropCache asks that later reads come from the disk rather than from memory.
	DropCache() error
}
