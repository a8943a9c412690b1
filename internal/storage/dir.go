package storage

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"
)

const (
	// firstSegmentSize is the size of a new log's first segment: written with zeros in a few milliseconds.
	firstSegmentSize = 1 << 20

	segmentSizeDefault = 64 << 20
	cacheSizeDefault   = 64 << 20
	reserveSizeDefault = 16 << 20
)

// Options say where a data directory is and how it is kept.
type Options struct {
	// FS is the file system; nil means OS.
	FS FS
	// Dir is the data directory, made if it is not there.
	Dir string
	// LogDir holds the log, if it is to be on a disk of its own; empty means Dir.
	LogDir string
	// ClusterID is part of every checksum, so that another ensemble's files never pass for ours. Not 0.
	ClusterID uint64
	// SegmentSize is the size in bytes of a full-grown log segment, at least 2 KiB; 0 means 64 MiB, less on a small disk.
	SegmentSize int64
	// CacheSize bounds in bytes the newest entries kept in memory; 0 means 64 MiB.
	CacheSize int
	// Space are the limits on free space.
	Space SpaceLimits
	// Rand gives the salts of log segments, 8 bytes each; nil means crypto/rand. A simulation passes its own.
	Rand io.Reader
	// Go runs work in the background; nil means a goroutine. A simulation runs it at once.
	Go func(func())
	// OnSync, if set, is called after each fdatasync of the log with its duration and the bytes written before it.
	OnSync func(d time.Duration, bytes int)

	window int64 // a multiple of the sector size; windowStep, but in tests
	adapts bool  // SegmentSize is not given: it follows the size of the disk
}

func (o Options) withDefaults() (Options, error) {
	if o.ClusterID == 0 || o.Dir == "" {
		return o, errors.New("open data directory: Options.Dir and Options.ClusterID must be set")
	}
	if o.FS == nil {
		o.FS = OS{}
	}
	if o.LogDir == "" {
		o.LogDir = o.Dir
	}
	if o.adapts = o.SegmentSize == 0; o.adapts {
		o.SegmentSize = segmentSizeDefault
	}
	o.SegmentSize = int64(pad(int(max(o.SegmentSize, segmentSizeMin)), sectorSize))
	if o.CacheSize == 0 {
		o.CacheSize = cacheSizeDefault
	}
	o.Space = o.Space.withDefaults()
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.window == 0 {
		o.window = windowStep
	}
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	return o, nil
}

// Dir is an open data directory: its Log and its snapshots. Its methods may be called from any goroutine.
type Dir struct {
	fs    FS
	path  string
	log   *Log
	space space
	locks []io.Closer
	notes Recovery

	// maintain is held while the set of files changes: snapshot commit, install, purge, close.
	maintain sync.Mutex
	closed   bool

	mu      sync.Mutex
	tmpMade int
	// snapshots holds the index of each snapshot file, and whether it was verified since Open.
	snapshots map[uint64]bool

	window int64 // Options.window
}

// Recovery tells what Open found that an operator should read of once.
type Recovery struct {
	// Torn is where the last batch lay that a crash cut off; it was never acknowledged. File is empty if there was none.
	Torn struct {
		File   string
		Offset int64
	}
	// DamagedSnapshots were passed over for an older one.
	DamagedSnapshots []error
	// Undone is set when a snapshot from a peer was only half installed at the crash, and was given up.
	Undone bool
	// NewDataDir is set when the log has a directory of its own and was in use, but the data directory was not: it is new,
	// or its content is lost. The log alone had everything.
	NewDataDir bool
	// IdentityMissing is set when the log's directory was in use and had no IDENTITY. It was written again.
	IdentityMissing bool
}

// Open takes a data directory for this process and recovers it: the newest verified snapshot and the log
// after it. A new directory is made ready if there is none. It returns a DamageError if anything that was once
// durable is not there, and then has changed nothing.
func Open(o Options) (*Dir, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dir{fs: o.FS, path: o.Dir, window: o.window, snapshots: map[uint64]bool{}}
	d.log = &Log{
		fs: o.FS, path: o.LogDir, cluster: o.ClusterID, rand: o.Rand, target: o.SegmentSize, onSync: o.OnSync,
		tail:   tail{budget: o.CacheSize},
		spares: spares{fs: o.FS, path: o.LogDir, spawn: o.Go, most: o.SegmentSize},
	}
	d.log.spares.room = d.log.purgeNow
	d.space = space{fs: o.FS, path: o.LogDir, limits: o.Space}
	d.log.spares.reserve = d.space.release
	if err := d.take(); err != nil {
		return nil, errors.Join(err, d.release())
	}
	if err := d.adapt(o.adapts); err != nil {
		return nil, errors.Join(err, d.release())
	}
	err = d.recover()
	if damage := (*DamageError)(nil); errors.As(err, &damage) {
		err = fmt.Errorf("open data directory %s: %w. Nothing was changed. Restore the directory from a copy, "+
			"or, "+DoMove, o.Dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// take makes the directories and locks them.
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

// dirs are the directories in use, one or two.
func (d *Dir) dirs() []string {
	if d.log.path == d.path {
		return []string{d.path}
	}
	return []string{d.path, d.log.path}
}

// release closes all files and gives the directories up.
func (d *Dir) release() error {
	d.log.spares.stop()
	d.log.files.Lock()
	defer d.log.files.Unlock()
	var errs []error
	for _, s := range d.log.segments {
		errs = append(errs, s.file.Close())
	}
	for _, lock := range d.locks {
		errs = append(errs, lock.Close())
	}
	d.locks = nil
	return errors.Join(errs...)
}

// Close writes down the last HardState, waits for work in the background and gives the directory up. The log refuses
// everything afterwards. A second Close does nothing.
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
		// An empty batch after the last one proves that one durable: rot in it is refused then, not taken for a torn write.
		err = l.fail(l.appendBatch(l.hard, nil))
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

// Recovered tells what Open found.
func (d *Dir) Recovered() Recovery { return d.notes }

func (d *Dir) snapshotPath(index uint64) string {
	return filepath.Join(d.path, fmt.Sprintf("%016x%s", index, snapshotSuffix))
}

// addSnapshot makes a durable, verified snapshot the newest one.
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
