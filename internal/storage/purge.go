package storage

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
)

// SnapshotsKept is how many verified snapshots a server keeps unless told otherwise.
const SnapshotsKept = 3

// KeepAll, as the number of snapshots to keep, makes Purge remove nothing while there is space.
const KeepAll = math.MaxInt

// A server that gets a snapshot from this one also needs the log that grows meanwhile. That log travels over the same
// network to the same disk, so the server catches up only if the log isn't many times as large as the snapshot.
const (
	catchUpShare  = 4        // of the newest snapshot's size: so much log is kept for that server
	catchUpLogMin = 64 << 20 // bytes of log that are kept for that server, however small the snapshot is
)

// Purge removes all but the newest keep verified snapshots, and the log segments that only have entries up to the
// oldest snapshot kept. If keep is less than 1, it means SnapshotsKept. If needed isn't 0, another server needs the
// log after that entry, which Purge then keeps too, within bounds. If space is short (SpaceState.Short), Purge keeps
// only one snapshot and no log for others, whatever keep is. Snapshots that have not been verified since Open are read
// and verified first; one that is damaged or can't be read does not count, and the error of reading is returned after
// the rest was done. Purge may take seconds, but delays an Append only for as long as one removal takes. It returns
// how many snapshots and segments it removed.
func (d *Dir) Purge(keep int, needed uint64) (snapshots, segments int, err error) {
	if keep < 1 {
		keep = SnapshotsKept
	}
	d.maintain.Lock()
	defer d.maintain.Unlock()
	if err := d.log.Err(); err != nil {
		return 0, 0, err
	}
	if state, err := d.look(); err == nil && (state.Short || d.lacksRoom()) {
		keep, needed = 1, 0
	}
	if keep == KeepAll {
		return 0, 0, nil
	}
	kept, unread := d.newestVerified(keep)
	if len(kept) == 0 {
		return 0, 0, unread
	}
	oldest := kept[len(kept)-1]
	if len(kept) == keep {
		if snapshots, err = d.removeSnapshots(oldest); err != nil {
			return snapshots, 0, d.log.fail(err)
		}
	}
	if needed != 0 && needed < oldest {
		d.mu.Lock()
		room := max(catchUpShare*d.snapshotSize, catchUpLogMin)
		d.mu.Unlock()
		oldest = d.log.within(room, needed, oldest)
	}
	segments, err = d.log.purge(oldest)
	return snapshots, segments, cmp.Or(d.log.fail(err), unread)
}

// within returns the entry up to which the log may be removed. It keeps the entries after needed, as long as the
// segments kept only for them, those that end at or below index, take at most room bytes.
func (l *Log) within(room int64, needed, index uint64) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range slices.Backward(l.segments) {
		if s.last > index {
			continue
		}
		if room -= int64(s.size); s.last <= needed || room < 0 {
			return s.last
		}
	}
	return needed
}

// newestVerified returns the indexes of up to n verified snapshots, newest first. unread is an error of one passed
// over.
func (d *Dir) newestVerified(n int) (kept []uint64, unread error) {
	d.mu.Lock()
	known := maps.Clone(d.snapshots)
	d.mu.Unlock()
	for _, index := range slices.Backward(slices.Sorted(maps.Keys(known))) {
		if len(kept) == n {
			break
		}
		if !known[index] {
			if _, err := d.verify(index); err != nil {
				if !errors.As(err, new(*DamageError)) && !errors.Is(err, fs.ErrNotExist) {
					unread = err
				}
				continue
			}
			d.mu.Lock()
			d.snapshots[index] = true
			d.mu.Unlock()
		}
		kept = append(kept, index)
	}
	return kept, unread
}

// removeSnapshots removes all snapshots below index.
func (d *Dir) removeSnapshots(index uint64) (n int, err error) {
	for _, i := range d.forgetBelow(index) {
		path := d.snapshotPath(i)
		if err := d.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, &FatalError{"remove", path, err}
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, syncDir(d.fs, d.path)
}

// forgetBelow removes the snapshots below index from the list and returns them, oldest first.
func (d *Dir) forgetBelow(index uint64) (below []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(d.snapshots)) {
		if i < index {
			below = append(below, i)
			delete(d.snapshots, i)
		}
	}
	return below
}

// placesCopied is the largest number of places that purge copies, which takes microseconds, to free the memory of those
// it has removed. An Append waits for that; if there are more places, the memory is only freed when they outgrow it.
const placesCopied = 1 << 14

// purge removes the segments all of whose entries are at or below index, but never the active one.
func (l *Log) purge(index uint64) (int, error) {
	l.write.Lock() // briefly: an Append checks its entries against base and places
	void, err := l.forget(index)
	l.write.Unlock()
	if err != nil || len(void) == 0 {
		return len(void), err
	}
	return len(void), l.retire(void) // its syncs take time, for which readers need not wait
}

// purgeNow removes the segments that are superfluous after the newest verified snapshot, and
// reports whether there were any. An Append that finds the disk full calls it, holding write.
func (l *Log) purgeNow() (bool, error) {
	l.mu.RLock()
	index := l.snapshot.Index
	l.mu.RUnlock()
	void, err := l.forget(index)
	for _, s := range void {
		if err == nil {
			err = removeFile(l.fs, s.path)
		}
	}
	return len(void) > 0, err
}

// forget removes the segments all of whose entries are at or below index from the log, closes their
// files and returns them. The caller holds write.
func (l *Log) forget(index uint64) ([]*segment, error) {
	l.files.Lock()
	defer l.files.Unlock()
	l.mu.Lock()
	n := 0
	for n < len(l.segments)-1 && l.segments[n].last <= index {
		n++
	}
	void := l.segments[:n]
	l.segments = slices.Clone(l.segments[n:])
	k := 0
	for k < len(l.places) && uint64(l.places[k].segment) < l.segments[0].number {
		k++
	}
	if k > 0 {
		l.base = position{l.base.index + uint64(k), l.places[k-1].term}
		if l.places = l.places[k:]; len(l.places) <= placesCopied {
			l.places = slices.Clone(l.places)
		}
	}
	l.mu.Unlock()
	return void, closeAll(void)
}
