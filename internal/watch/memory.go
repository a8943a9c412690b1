package watch

import "unsafe"

// indexBytes is about what an entry of one of the table's maps takes.
const indexBytes = 48

// Memory returns about how many bytes the watches take.
func (t *Table) Memory() int64 {
	return int64(t.names) + int64(len(t.pathIndex))*(int64(unsafe.Sizeof(watchedPath{}))+indexBytes) +
		int64(len(t.watcherIndex))*(int64(unsafe.Sizeof(watcher{}))+indexBytes) +
		int64(len(t.recordIndex))*(int64(unsafe.Sizeof(record{}))+indexBytes)
}
