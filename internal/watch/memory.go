package watch

import "unsafe"

const (
	// indexBytes is the approximate size of an entry in the map of watchers.
	indexBytes = 48
	// bucketBytes is the size of a bucket; there are about as many buckets as elements.
	bucketBytes = 4
)

// Memory returns the approximate memory of the watches, in bytes.
func (t *Table) Memory() int64 {
	pieces := int64(t.pieces.last) - int64(len(t.pieces.free))
	return int64(t.paths.size)*(int64(unsafe.Sizeof(element[watchedPath]{}))+bucketBytes) +
		pieces*int64(unsafe.Sizeof(piece{})) +
		int64(t.records.size)*(int64(unsafe.Sizeof(element[record]{}))+bucketBytes) +
		int64(len(t.watcherIndex))*(int64(unsafe.Sizeof(watcher{}))+indexBytes)
}
