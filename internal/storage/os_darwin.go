package storage

// Fdatasync is os.File.Sync, which on this system also flushes the drive's cache.
func (f osFile) Fdatasync() error { return f.Sync() }

func (f osFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

// WriteOut does nothing: this system has no such call.
func (f osFile) WriteOut(off, size int64) error { return nil }

// Direct returns false: this system has no such call.
func (f osFile) Direct(on bool) bool { return false }

// DropCache does nothing: this system has no such call.
func (f osFile) DropCache() error { return nil }

// InPlace returns true: without snapshots of the file system, this system overwrites in place.
func (f osFile) InPlace(bool) bool { return true }

// CopiesOnWrite returns "": without snapshots of the file system, this system overwrites in place.
func CopiesOnWrite(string) string { return "" }
