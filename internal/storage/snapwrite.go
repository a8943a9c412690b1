package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/s2"
)

// writeOutStep is how much of a snapshot, or of a new segment, is written before waiting for the
// disk to receive it. The log's next write and sync wait for everything that was sent to the disk
// before them, and megabytes take it tens of milliseconds.
const writeOutStep = 256 << 10

// SnapshotWriter writes one snapshot file under a temporary name, until Commit, Dir.Install or
// Abort ends it. It may be used by one goroutine at a time. A full disk only ends the snapshot; any
// other disk error also ends the log (FatalError).
type SnapshotWriter struct {
	// Pause, if set, is called between small pieces of work, to leave processors and the disk to other
	// work. If it returns an error, the snapshot ends.
	Pause func() error

	dir    *Dir
	meta   Meta
	tmp    string
	file   File // a timedFile
	work   *underWay
	off    int64
	out    int64 // how many bytes the disk has received
	sum    hash.Hash
	footer snapFooter
	raw    bool   // the bytes of the file come from a peer
	whole  bool   // the file is on the disk and verified
	spare  string // of a snapshot from a peer, for the segment that begins after it; empty if not taken
	lends  bool   // the reserve was released for this snapshot
	buf    []byte
	done   bool
}

// CreateSnapshot begins a snapshot of this server's own state as of meta.Index, which must be in the log.
func (d *Dir) CreateSnapshot(meta Meta) (*SnapshotWriter, error) {
	meta.ClusterID = d.log.cluster
	w, err := d.newSnapshotWriter(false)
	if err != nil {
		return nil, err
	}
	w.meta = meta
	head := meta.append(nil)
	if len(head) > snapHeaderMax {
		return nil, errors.Join(fmt.Errorf("snapshot at index %d: membership takes %d bytes, at most %d", meta.Index, len(head),
			snapHeaderMax), w.Abort())
	}
	if err := w.write(head); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// ReceiveSnapshot begins a snapshot whose file comes from a peer. WriteRaw writes its bytes, and
// Dir.Install completes it.
func (d *Dir) ReceiveSnapshot() (*SnapshotWriter, error) { return d.newSnapshotWriter(true) }

func (d *Dir) newSnapshotWriter(raw bool) (*SnapshotWriter, error) {
	if err := d.log.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.tmpMade++
	tmp := filepath.Join(d.path, fmt.Sprintf("snapshot-%d%s", d.tmpMade, tmpSuffix))
	d.mu.Unlock()
	w := &SnapshotWriter{dir: d, tmp: tmp, sum: sha256.New(), raw: raw, work: newUnderWay()}
	d.watched(w.work, true)
	file, err := w.create()
	if NoRoom(err) && w.borrow() {
		file, err = w.create()
	}
	if err != nil {
		d.watched(w.work, false)
		w.lent(false)
		return nil, d.snapshotFailed("create", tmp, err)
	}
	w.file = timedFile{file, w.work}
	return w, nil
}

func (w *SnapshotWriter) create() (File, error) {
	w.work.begin()
	defer w.work.end()
	return w.dir.fs.Create(w.tmp)
}

// snapshotFailed returns the error of a snapshot. Any disk error other than a lack of room becomes
// fatal for the log. Nothing relies on the file yet, so that holds for its syncs too.
func (d *Dir) snapshotFailed(op, file string, err error) error {
	if NoRoom(err) {
		return fmt.Errorf("snapshot given up; make room and try again: %w", &RoomError{op, file, err})
	}
	return d.log.fail(&FatalError{op, file, err})
}

// lendShare is the largest share of the reserve that a snapshot is expected to take if the reserve is released for it.
const lendShare = 2

// borrow releases the reserve for a snapshot of this server's own state, and reports whether that has freed anything.
// On a full disk only a snapshot frees space for good: the log before it is removed, and then the reserve is held again
// (SpaceState). A snapshot that would take most of the reserve doesn't get it, because the log needs it more.
func (w *SnapshotWriter) borrow() bool {
	d := w.dir
	d.mu.Lock()
	last := d.snapshotSize
	d.mu.Unlock()
	if w.raw || w.lends || max(last, w.off)*lendShare > d.space.limits.ReserveBytes {
		return false
	}
	w.lent(true)
	return d.space.release()
}

// lent says that the reserve is released for w, or no longer is.
func (w *SnapshotWriter) lent(on bool) {
	if w.lends != on {
		w.lends = on
		w.dir.space.lend(on)
	}
}

// takeSpare takes the spare for the segment that begins after a snapshot from a peer. The caller holds the log's write.
func (w *SnapshotWriter) takeSpare() (err error) {
	if w.spare == "" {
		w.spare, err = w.dir.log.spares.take(w.dir.log.nextSize(), w.dir.log.firstSize())
	}
	return err
}

// giveSpare returns the spare that takeSpare took.
func (w *SnapshotWriter) giveSpare() {
	if w.spare != "" {
		w.dir.log.spares.spoiled(w.spare, nil)
		w.spare = ""
	}
}

// WriteChunk compresses and writes one chunk of at most ChunkSizeMax bytes. It doesn't retain p.
// Chunks are numbered from 0.
func (w *SnapshotWriter) WriteChunk(p []byte) error {
	if w.raw {
		panic("storage: a chunk to a snapshot that a peer made")
	}
	if len(p) > ChunkSizeMax {
		return fmt.Errorf("write snapshot %s: a chunk of %d bytes; at most %d", w.tmp, len(p), ChunkSizeMax)
	}
	if err := w.pause(); err != nil { // preparing p took work
		return err
	}
	w.buf = slices.Grow(w.buf[:0], chunkHeader+s2.MaxEncodedLen(len(p)))
	stored := s2.Encode(w.buf[chunkHeader:cap(w.buf)], p)
	w.buf = w.buf[:chunkHeader+len(stored)]
	c := chunkPlace{raw: uint32(len(p)), stored: uint32(len(stored)), crc: crcUpdate(0, stored)}
	c.append(w.buf[:0], w.footer.chunks)
	w.footer.chunks++
	w.footer.raw += uint64(len(p))
	return w.write(w.buf)
}

// WriteRaw appends bytes of a peer's snapshot file, which continue at Offset.
func (w *SnapshotWriter) WriteRaw(p []byte) error {
	if !w.raw {
		panic("storage: raw bytes to a snapshot made here")
	}
	return w.write(p)
}

// Offset returns the number of bytes written: where an interrupted transfer continues.
func (w *SnapshotWriter) Offset() int64 { return w.off }

func (w *SnapshotWriter) write(p []byte) error {
	if w.done || w.whole {
		return ErrClosed
	}
	_, err := w.file.WriteAt(p, w.off)
	if NoRoom(err) && w.borrow() {
		_, err = w.file.WriteAt(p, w.off)
	}
	if err != nil {
		return w.dir.snapshotFailed("write", w.tmp, err)
	}
	w.off += int64(len(p))
	w.sum.Write(p)
	for w.off-w.out >= writeOutStep {
		if err := w.file.WriteOut(w.out, writeOutStep); err != nil {
			return w.dir.snapshotFailed("write out", w.tmp, err)
		}
		w.out += writeOutStep
	}
	return w.pause()
}

func (w *SnapshotWriter) pause() error {
	if w.Pause == nil {
		return nil
	}
	return w.Pause()
}

func (w *SnapshotWriter) sync() error {
	if err := w.file.Fdatasync(); err != nil {
		return w.dir.snapshotFailed("fdatasync", w.tmp, err)
	}
	return nil
}

// pausingFile pauses before each read.
type pausingFile struct {
	File
	pause func() error
}

// ReadAt reads as File does.
func (f pausingFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.pause(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// finish completes the file under its temporary name, makes it durable and verifies it by reading
// it back from the disk.
func (w *SnapshotWriter) finish() error {
	if w.whole {
		return nil
	}
	if !w.raw {
		w.footer.length = uint64(w.off + snapFooterSize)
		w.sum.Sum(w.footer.sum[:0])
		if err := w.write(w.footer.append(nil)); err != nil {
			return err
		}
	}
	if err := w.sync(); err != nil {
		return err
	}
	if err := w.file.DropCache(); err != nil {
		return w.dir.snapshotFailed("drop cache", w.tmp, err)
	}
	layout, err := scanSnapshot(pausingFile{w.file, w.pause}, w.tmp, true)
	if err != nil {
		return fmt.Errorf("read the snapshot back from the disk: %w", err)
	}
	if layout.meta.ClusterID != w.dir.log.cluster {
		return fmt.Errorf("snapshot %s is of cluster %#x, this server of cluster %#x; it was not installed", w.tmp,
			layout.meta.ClusterID, w.dir.log.cluster)
	}
	w.meta, w.whole = layout.meta, true
	return nil
}

// Verify makes a snapshot that came from a peer durable, verifies it and takes the room that Install needs for the log,
// so that Install doesn't have to. The Dir doesn't list the result as a snapshot yet. The caller closes it. After an
// error that is not a FatalError the log remains usable.
func (w *SnapshotWriter) Verify() (*Snapshot, error) {
	if w.done {
		return nil, ErrClosed
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	l := w.dir.log
	l.write.Lock()
	err := l.ample(w.takeSpare)
	l.write.Unlock()
	if lacksRoom(err) {
		return nil, err
	}
	if err != nil {
		return nil, l.fail(err)
	}
	return openSnapshot(w.dir.fs, w.tmp)
}

// Commit completes the snapshot, verifies it by reading it back, and makes it the newest one. After
// an error that is not a FatalError the snapshot does not exist, and the log remains usable.
func (w *SnapshotWriter) Commit() error {
	d := w.dir
	d.maintain.Lock()
	defer d.maintain.Unlock()
	if w.done {
		return ErrClosed
	}
	if w.raw {
		panic("storage: Commit of a snapshot received from a peer; Dir.Install resets the log to it")
	}
	if term, err := d.log.Term(w.meta.Index); err != nil || term != w.meta.Term {
		return errors.Join(fmt.Errorf("snapshot at index %d, term %d is of no entry in the log (its term %d, %w)",
			w.meta.Index, w.meta.Term, term, err), w.Abort())
	}
	if err := w.finish(); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.rename(); lacksRoom(err) {
		return errors.Join(err, w.Abort())
	} else if err != nil {
		return d.log.fail(err)
	}
	d.addSnapshot(w.meta)
	d.noteSnapshotSize(w.off)
	w.lent(false)
	return nil
}

func (d *Dir) noteSnapshotSize(n int64) {
	d.mu.Lock()
	d.snapshotSize = n
	d.mu.Unlock()
}

// rename gives the file its final name, durably. After a RoomError the file has its former name, and rename can be
// called again.
func (w *SnapshotWriter) rename() error {
	w.work.begin()
	defer w.ended()
	if err := w.dir.fs.Rename(w.tmp, w.dir.snapshotPath(w.meta.Index)); err != nil {
		return failure("rename", w.tmp, err)
	}
	w.close()
	return syncDir(w.dir.fs, w.dir.path)
}

// Abort removes the unfinished file. After Commit, Install or another Abort it does nothing.
func (w *SnapshotWriter) Abort() error {
	if w.done {
		return nil
	}
	w.close()
	w.work.begin()
	defer w.ended()
	w.giveSpare()
	if w.lends { // the next snapshot isn't smaller, so the reserve isn't released for it in vain
		w.dir.noteSnapshotSize(w.off)
	}
	defer w.lent(false)
	if err := w.dir.fs.Remove(w.tmp); err != nil {
		return fmt.Errorf("remove unfinished snapshot: %w", err)
	}
	return nil
}

func (w *SnapshotWriter) close() {
	w.done = true
	w.file.Close()
}

// ended records that the disk's work is done: for good, if the writer is closed.
func (w *SnapshotWriter) ended() {
	w.work.end()
	if w.done {
		w.dir.watched(w.work, false)
	}
}
