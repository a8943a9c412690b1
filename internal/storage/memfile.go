package storage

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
)

// memInode is one file of a MemFS: the content that reads see, the disk's content, and the
// sectors in which these may differ.
type memInode struct {
	name  string // its last name
	cache []byte
	disk  []byte
	dirty map[int64]bool // by sector number
	// sizePending says that the length of cache is not on the disk yet.
	sizePending bool
}

func (n *memInode) resize(size int64) {
	if size == int64(len(n.cache)) {
		return
	}
	old := len(n.cache)
	n.cache = slices.Grow(n.cache, max(0, int(size)-old))[:size]
	if int(size) > old {
		clear(n.cache[old:])
		for s := int64(old) / sectorSize; s*sectorSize < size; s++ {
			n.dirty[s] = true // now zeros, but the disk may still hold the content before a truncation
		}
	}
	n.sizePending = true
}

func (n *memInode) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > int64(len(n.cache)) {
		n.resize(end)
	}
	copy(n.cache[off:], p)
	for s := off / sectorSize; s*sectorSize < off+int64(len(p)); s++ {
		n.dirty[s] = true
	}
}

// sync writes the dirty sectors of the cache to the disk. Only those: sectors that an earlier
// failed sync dropped stay lost.
func (n *memInode) sync() {
	n.disk = resized(n.disk, len(n.cache))
	for s := range n.dirty {
		n.copySector(n.disk, s)
	}
	n.forget()
}

// forget marks everything clean.
func (n *memInode) forget() {
	clear(n.dirty)
	n.sizePending = false
}

// evict makes the cache of clean sectors equal to the disk.
func (n *memInode) evict() {
	for off := 0; off < len(n.cache); off += sectorSize {
		if n.dirty[int64(off/sectorSize)] {
			continue
		}
		end := min(off+sectorSize, len(n.cache))
		clear(n.cache[off:end])
		if off < len(n.disk) {
			copy(n.cache[off:end], n.disk[off:])
		}
	}
}

// crashed returns the content after a power cut: the disk's, with some of the dirty sectors.
func (n *memInode) crashed(rng *rand.Rand) []byte {
	size := len(n.disk)
	if n.sizePending && rng.IntN(2) == 0 {
		size = len(n.cache)
	}
	b := resized(slices.Clone(n.disk), size)
	keep := rng.IntN(5) // 0 keeps none, 4 all, 1 to 3 some
	// The order of the map must not decide which sector gets which random number.
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		if keep == 4 || rng.IntN(4) < keep {
			n.copySector(b, s)
		}
	}
	return b
}

func (n *memInode) copySector(to []byte, s int64) {
	off := int(s * sectorSize)
	if off < len(to) && off < len(n.cache) {
		copy(to[off:min(off+sectorSize, len(to))], n.cache[off:])
	}
}

func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

type memFile struct {
	fs    *MemFS
	inode *memInode
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.call(Call{Op: "read", Name: f.inode.name, Off: off, Bytes: int64(len(p))}); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.inode.name, Err: fs.ErrInvalid}
	}
	if off >= int64(len(f.inode.cache)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.cache[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fs.call(Call{Op: "write", Name: f.inode.name, Off: off, Bytes: int64(len(p))})
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err != nil {
		n := 0
		if short := (*ShortWrite)(nil); errors.As(err, &short) {
			n = min(short.N, len(p))
			f.inode.write(p[:n], off)
		}
		return n, err
	}
	room := int64(len(p))
	if over := int64(len(f.inode.cache)) - off; !f.fs.CopyOnWrite {
		room -= max(over, 0)
	}
	if err := f.fs.reserveLocked(room); err != nil {
		n := 0
		if f.fs.CopyOnWrite { // the beginning may fit
			n = len(p) / 2
			f.inode.write(p[:n], off)
		}
		return n, &fs.PathError{Op: "write", Path: f.inode.name, Err: err}
	}
	f.inode.write(p, off)
	return len(p), nil
}

// InPlace reports whether the file system overwrites in place.
func (f *memFile) InPlace(bool) bool { return !f.fs.CopyOnWrite }

func (f *memFile) Truncate(size int64) error {
	if err := f.fs.call(Call{Op: "truncate", Name: f.inode.name, Bytes: size}); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.inode.resize(size)
	return nil
}

func (f *memFile) Allocate(size int64) error {
	if err := f.fs.call(Call{Op: "allocate", Name: f.inode.name, Bytes: size}); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.reserveLocked(size - int64(len(f.inode.cache))); err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.inode.name, Err: err}
	}
	f.inode.resize(max(size, int64(len(f.inode.cache))))
	return nil
}

func (f *memFile) Fdatasync() error {
	err := f.fs.call(Call{Op: "fdatasync", Name: f.inode.name})
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case err != nil:
		f.inode.forget()
	case !f.fs.LieAboutSync:
		f.inode.sync()
	}
	return err
}

// WriteOut leaves pending sectors pending: it doesn't guarantee that any are on the disk.
func (f *memFile) WriteOut(off, size int64) error {
	err := f.fs.call(Call{Op: "writeout", Name: f.inode.name, Off: off, Bytes: size})
	if err != nil {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		f.inode.forget()
	}
	return err
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.inode.cache)), nil
}

func (f *memFile) DropCache() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if !f.fs.KeepCache {
		f.inode.evict()
	}
	return nil
}

// Direct returns false: there is no disk to write to directly.
func (f *memFile) Direct(on bool) bool { return false }

func (f *memFile) Close() error { return nil }
