package storage

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// firstSegmentSize is the size of a new log's first segment. Filling it with zeros takes a few milliseconds.
	firstSegmentSize = 1 << 20

	segmentSizeDefault = 64 << 20
	cacheSizeDefault   = 64 << 20
	reserveSizeDefault = 16 << 20
)

// Options say where a data directory is and how it is maintained.
type Options struct {
	// FS is the file system; nil means OS.
	FS FS
	// Dir is the data directory. It is created if it doesn't exist.
	Dir string
	// LogDir is the directory of the log, if the log has a disk of its own; empty means Dir.
	LogDir string
	// ClusterID is part of every checksum, so that files of another ensemble are never mistaken for
	// this one's. It must not be 0.
	ClusterID uint64
	// SegmentSize is the size in bytes of a segment once the log has grown, at least 2 KiB; 0 means 64
	// MiB, less on a small disk.
	SegmentSize int64
	// CacheSize bounds the memory of the newest entries, which are kept in memory, in bytes; 0 means 64 MiB.
	CacheSize int
	// Space are the limits on free space.
	Space SpaceLimits
	// Rand provides the salts of log segments, 8 bytes each; nil means crypto/rand. A simulation passes its own.
	Rand io.Reader
	// Go runs work in the background; nil means a goroutine. A simulation runs it at once.
	Go func(func())
	// Wait, if set, is called when a write of the log has no room; it waits for a while, and reports whether to try again.
	// While it waits, the log can be read, purged and closed. If Wait is nil, Append fails for good instead.
	Wait func() bool
	// OnSync, if set, is called after each fdatasync of the log with its duration and the bytes written before it.
	OnSync func(d time.Duration, bytes int)

	window int64 // a multiple of the sector size; windowStep except in tests
	adapts bool  // SegmentSize is not set: it depends on the size of the disk
}

func (o Options) withDefaults() (Options, error) {
	if o.ClusterID == 0 || o.Dir == "" {
		return o, errors.New("open data directory: Options.Dir and Options.ClusterID must be set")
	}
	if o.FS == nil {
		o.FS = OS{}
	}
	o.LogDir = cmp.Or(o.LogDir, o.Dir)
	if o.adapts = o.SegmentSize == 0; o.adapts {
		o.SegmentSize = segmentSizeDefault
	}
	o.SegmentSize = int64(pad(int(max(o.SegmentSize, segmentSizeMin)), sectorSize))
	o.CacheSize = cmp.Or(o.CacheSize, cacheSizeDefault)
	o.Space = o.Space.withDefaults()
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.window = cmp.Or(o.window, windowStep)
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	return o, nil
}

// A Dir is an open data directory: its Log and its snapshots. Its methods may be called from any goroutine.
type Dir struct {
	fs    FS
	path  string
	log   *Log
	space space
	locks []io.Closer
	notes Recovery

	// maintain is held while the set of files changes: during snapshot commit, install, purge and close.
	maintain sync.Mutex
	closed   bool

	mu      sync.Mutex
	tmpMade int
	// snapshots holds the index of each snapshot file, and whether it was verified since Open.
	snapshots map[uint64]bool
	// snapshotSize is the size in bytes of the last snapshot of this server's own state since Open, as far as it was
	// written if it had no room.
	snapshotSize int64
	snapshotWork map[*underWay]bool // of the snapshots that are being written

	window int64 // Options.window
}

// A Recovery holds Open's findings that an operator should know.
type Recovery struct {
	// Torn is the position of a last batch that a crash cut off; it was never acknowledged. File is
	// empty if there was none.
	Torn struct {
		File   string
		Offset int64
	}
	// DamagedSnapshots are the damages of snapshots for which an older snapshot was used instead.
	DamagedSnapshots []error
	// Undone is set if the installation of a snapshot from a peer was unfinished at the crash, and has been undone.
	Undone bool
	// NewDataDir is set if the log has a directory of its own and was in use, but the data directory
	// was not: it is new, or its content is lost. The log alone held everything.
	NewDataDir bool
	// IdentityMissing is set if the log's directory was in use but had no IDENTITY. The file has been written again.
	IdentityMissing bool
}

// Open locks a data directory for this process and recovers its newest verified snapshot and the
// log after that. If the directory doesn't exist, Open creates it. It returns a DamageError if
// anything that was once durable is missing, and has then changed nothing.
func Open(o Options) (*Dir, error) {
	d, o, err := newDir(o)
	if err != nil {
		return nil, err
	}
	if err = d.take(); err == nil {
		err = d.adapt(o.adapts)
	}
	if err == nil {
		err = d.recover()
	}
	if damage := (*DamageError)(nil); errors.As(err, &damage) && !errors.As(err, new(*FormatError)) {
		err = fmt.Errorf("open data directory %s: %w. Nothing was changed. Restore the directory from a copy, "+
			"or, "+DoMove, o.Dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.log.wait = o.Wait
	return d, nil
}

// Examine reads a data directory that isn't in use as Open does, and changes and locks nothing. The error is the one
// with which Open would refuse the directory: a DamageError, MissingError or ClusterError, or a read error.
func Examine(o Options) (notes Recovery, err error) {
	d, _, err := newDir(o)
	if err != nil {
		return notes, err
	}
	err = newRecovery(d).read()
	return d.notes, errors.Join(err, d.release())
}

// newDir returns a Dir that hasn't read anything yet, and the options with their defaults.
func newDir(o Options) (*Dir, Options, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, o, err
	}
	d := &Dir{fs: o.FS, path: o.Dir, window: o.window, snapshots: map[uint64]bool{}, snapshotWork: map[*underWay]bool{}}
	d.log = &Log{
		writing: newUnderWay(),
		fs:      o.FS, path: o.LogDir, cluster: o.ClusterID, rand: o.Rand, target: o.SegmentSize, onSync: o.OnSync,
		tail:   tail{budget: o.CacheSize},
		spares: spares{fs: o.FS, path: o.LogDir, spawn: o.Go, most: o.SegmentSize},
	}
	d.space = space{fs: o.FS, path: o.LogDir, limits: o.Space}
	d.log.spares.reserve = d.space.release
	return d, o, nil
}

// take creates and locks the directories.
func (d *Dir) take() error {
	for _, dir := range d.dirs() {
		if err := d.fs.MkdirAll(dir); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
		lock, err := d.fs.Lock(dir)
		if err != nil {
			return err
		}
		d.locks = append(d.locks, lock)
	}
	return nil
}

// dirs returns the directories in use, one or two.
func (d *Dir) dirs() []string {
	return slices.Compact([]string{d.path, d.log.path})
}

// release closes all files and unlocks the directories.
func (d *Dir) release() error {
	d.log.spares.stop()
	d.log.files.Lock()
	defer d.log.files.Unlock()
	var errs []error
	for _, s := range d.log.segments {
		errs = append(errs, s.file.Close())
	}
	if d.log.next != nil {
		errs = append(errs, d.log.next.file.Close())
	}
	for _, lock := range d.locks {
		errs = append(errs, lock.Close())
	}
	d.locks = nil
	return errors.Join(errs...)
}

// Close writes the last HardState, waits for background work and unlocks the directory. The log
// refuses everything afterwards. A second Close does nothing.
func (d *Dir) Close() error {
	d.maintain.Lock()
	defer d.maintain.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	l := d.log
	l.write.Lock()
	defer l.write.Unlock()
	var err error
	if l.Err() == nil {
		// An empty batch after the last one proves that the last one was durable: damage in it is then
		// refused instead of being mistaken for a torn write.
		l.closing = true
		if err = l.appendBatch(l.hard, nil); lacksRoom(err) {
			err = nil // as after a crash, which loses nothing either
		}
		l.fail(err)
		l.spares.stop()
		if err == nil {
			err = l.fail(l.spares.failed())
		}
		if err == nil {
			l.fail(ErrClosed)
		}
	}
	return errors.Join(err, d.release())
}

// Log returns the directory's log.
func (d *Dir) Log() *Log { return d.log }

// Recovered returns what Open found.
func (d *Dir) Recovered() Recovery { return d.notes }

func (d *Dir) snapshotPath(index uint64) string {
	return filepath.Join(d.path, fmt.Sprintf("%016x%s", index, snapshotSuffix))
}

// addSnapshot records a durable, verified snapshot. It becomes the newest one unless its index is lower.
func (d *Dir) addSnapshot(m Meta) {
	d.mu.Lock()
	d.snapshots[m.Index] = true
	d.mu.Unlock()
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	if m.Index >= d.log.snapshot.Index {
		d.log.snapshot = m
	}
}

func newSalt(r io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, &FatalError{"read", "random source", err}
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}
