package watch

import "unsafe"

const (
	// indexBytes is the approximate size of an entry in the map of watchers.
	indexBytes   = 48
	pointerBytes = 8
	// pageBytes is the size of a page of Go's heap; a chunk takes whole pages.
	pageBytes = 8 << 10
)

// Memory returns the approximate memory of the watches, in bytes. It includes memory reserved for further ones.
func (t *Table) Memory() int64 {
	return t.paths.bytes() + t.pieces.bytes() + t.records.bytes() + t.watchers.bytes() +
		int64(len(t.watcherIndex))*indexBytes
}

// MemoryOf returns a watcher's share of Memory, as if all watches used the same amount. It doesn't include memory
// reserved for further ones.
func (t *Table) MemoryOf(watcherID int64) int64 {
	n := int64(t.SizeOf(watcherID))
	if n == 0 {
		return 0
	}
	return t.Memory() / int64(t.records.held*chunkSize) * n
}

// bytes returns the memory of a slab.
func (s *slab[T]) bytes() int64 {
	each := (int64(unsafe.Sizeof(chunk[T]{})) + pageBytes - 1) / pageBytes * pageBytes
	return int64(s.held)*each + int64(cap(s.chunks))*pointerBytes + int64(cap(s.open))*4
}

// bytes returns the memory of a slab and its index.
func (x *indexed[T]) bytes() int64 {
	return x.slab.bytes() + int64(len(x.heads))*(int64(unsafe.Sizeof([chunkSize]ref{}))+pointerBytes)
}
