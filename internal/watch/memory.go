package watch

import "unsafe"

const (
	// indexBytes is about what an entry of the map of watchers takes.
	indexBytes = 48
	// bucketBytes is what a bucket takes; there are about as many as elements.
	bucketBytes = 4
)

// Memory returns about how many bytes the watches take.
func (t *Table) Memory() int64 {
	pieces := int64(t.pieces.last) - int64(len(t.pieces.free))
	return int64(t.paths.size)*(int64(unsafe.Sizeof(element[watchedPath]{}))+bucketBytes) +
		pieces*int64(unsafe.Sizeof(piece{})) +
		int64(t.records.size)*(int64(unsafe.Sizeof(element[record]{}))+bucketBytes) +
		int64(len(t.watcherIndex))*(int64(unsafe.Sizeof(watcher{}))+indexBytes)
}
