package storage

import (
	"sync/atomic"
	"time"
)

// An underWay records when the disk operation under way began. It never blocks.
type underWay struct {
	from  time.Time    // when counting began
	since atomic.Int64 // ns from then to the begin of the work; 0 if there is none
}

func newUnderWay() *underWay { return &underWay{from: time.Now()} }

func (u *underWay) begin() { u.since.Store(max(1, int64(time.Since(u.from)))) }

// end reports whether there was work.
func (u *underWay) end() bool { return u.since.Swap(0) != 0 }

// took returns how long the work has been under way; 0 if there is none.
func (u *underWay) took() time.Duration {
	since := u.since.Load()
	if since == 0 {
		return 0
	}
	return max(1, time.Since(u.from)-time.Duration(since))
}

// A timedFile is a file whose operations that wait for the disk count as work under way.
type timedFile struct {
	File
	work *underWay
}

func (f timedFile) ReadAt(p []byte, off int64) (int, error) {
	f.work.begin()
	defer f.work.end()
	return f.File.ReadAt(p, off)
}

func (f timedFile) WriteAt(p []byte, off int64) (int, error) {
	f.work.begin()
	defer f.work.end()
	return f.File.WriteAt(p, off)
}

func (f timedFile) WriteOut(off, size int64) error {
	f.work.begin()
	defer f.work.end()
	return f.File.WriteOut(off, size)
}

func (f timedFile) Fdatasync() error {
	f.work.begin()
	defer f.work.end()
	return f.File.Fdatasync()
}

// SnapshotWritingFor returns how long one disk operation for a snapshot's file has been under way, the longest if
// several snapshots are written; 0 if there is none. It never waits for a disk.
func (d *Dir) SnapshotWritingFor() (longest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for work := range d.snapshotWork {
		longest = max(longest, work.took())
	}
	return longest
}

// watched says that a snapshot is being written, or no longer is.
func (d *Dir) watched(work *underWay, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on {
		d.snapshotWork[work] = true
	} else {
		delete(d.snapshotWork, work)
	}
}
