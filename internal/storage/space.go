package storage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	reserveName = "reserve"

	spaceWarnPercent   = 20
	spaceRefusePercent = 5
	spaceRefuseBytes   = 1 << 30
	// spaceRefuseShare replaces spaceRefuseBytes on a small disk of a server, which never has that much free.
	spaceRefuseShare = 10
	// spaceWarnBytes is enough for weeks of writes on a disk of any size, so no warning is due above it.
	spaceWarnBytes = 20 << 30

	// segmentShare is the least number of full-size segments for which the log's disk has room: the
	// one in use, the next one, one that is being purged, and the space for snapshots.
	segmentShare = 16
	// reserveShare and reserveSizeMin determine the reserve on a small disk; reserveSizeMin has room
	// for two minimal segments.
	reserveShare   = 32
	reserveSizeMin = 2 * firstSegmentSize
	// roomSegments is how many segments of the smallest size must fit on the disk of a new log in
	// addition to the reserve.
	roomSegments = 8
	// filesRefuse is how many files must still fit before writes are refused: the next segment, a snapshot and the
	// accompanying small files, of this server and of others on the same file system. At filesWarn the operator is told.
	filesRefuse = 16
	filesWarn   = 128
	// shortFactor defines when space is short: if less is free than shortFactor times the space at
	// which writes are refused. From then on, more space is freed.
	shortFactor = 2
)

// adapt makes segments and the reserve smaller if the log's disk is small, unless Options sets their sizes.
func (d *Dir) adapt(segments bool) error {
	_, total, err := d.fs.Free(d.log.path)
	if err != nil {
		return fmt.Errorf("size of the file system of %s: %w", d.log.path, err)
	}
	if segments {
		size := int64(segmentSizeDefault)
		for size > firstSegmentSize && uint64(size) > total/segmentShare {
			size /= 2
		}
		d.log.target, d.log.spares.most = size, size
	}
	if d.space.limits.adapts {
		d.space.limits.ReserveBytes = min(reserveSizeDefault, max(int64(min(total, 1<<62))/reserveShare, reserveSizeMin))
	}
	return nil
}

// checkRoom refuses to begin a new log on a disk without room for a few of the smallest segments and the reserve.
func (d *Dir) checkRoom() error {
	free, total, err := d.fs.Free(d.log.path)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", d.log.path, err)
	}
	files, filesTotal, err := d.fs.Files(d.log.path)
	if err != nil {
		return fmt.Errorf("free files of %s: %w", d.log.path, err)
	}
	if filesTotal > 0 && files < filesRefuse {
		return fmt.Errorf("begin a log in %s: its file system can take %d more files, and a new log needs %d: remove small files, or name another directory: %w",
			d.log.path, files, filesRefuse, syscall.ENOSPC)
	}
	need := uint64(roomSegments*d.log.firstSize() + max(d.space.limits.ReserveBytes, 0))
	if free >= need {
		return nil
	}
	return fmt.Errorf("begin a log in %s: its file system has %d bytes, %d of them free, and a new log needs %d: free some, or name another directory: %w",
		d.log.path, total, free, need, syscall.ENOSPC)
}

// RoomFor returns an error if a file of size bytes that a peer wants to send doesn't fit into the free space without
// the reserve. The sizes of the log and of other files may change meanwhile: RoomFor is a check before the work, not a
// promise.
func (d *Dir) RoomFor(size int64) error {
	if size < 0 {
		return fmt.Errorf("a file of %d bytes", size)
	}
	free, _, err := d.fs.Free(d.path)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", d.path, err)
	}
	if reserve := uint64(max(d.space.limits.ReserveBytes, 0)); free < reserve || uint64(size) > free-reserve {
		return fmt.Errorf("a file of %d bytes doesn't fit into %s, which has %d bytes free: %w", size, d.path, free,
			syscall.ENOSPC)
	}
	if files, total, err := d.fs.Files(d.path); err == nil && total > 0 && files == 0 {
		return fmt.Errorf("%s can take no more files: %w", d.path, syscall.ENOSPC)
	}
	return nil
}

// SpaceLimits are the limits on free space. A zero field means the default, a negative one no limit.
type SpaceLimits struct {
	WarnPercent   int   // warn if less than this share is free, and less than 20 GiB; default 20
	RefusePercent int   // refuse writes if less than this share is free, default 5,
	RefuseBytes   int64 // or less than this number of bytes, default 1 GiB
	ReserveBytes  int64 // reserved for the log's own needs on a full disk; default 16 MiB, less on a small disk

	adapts bool // ReserveBytes is not set: it depends on the size of the disk
}

func (s SpaceLimits) withDefaults() SpaceLimits {
	s.WarnPercent = cmp.Or(s.WarnPercent, spaceWarnPercent)
	s.RefusePercent = cmp.Or(s.RefusePercent, spaceRefusePercent)
	s.RefuseBytes = cmp.Or(s.RefuseBytes, spaceRefuseBytes)
	if s.ReserveBytes == 0 {
		s.ReserveBytes, s.adapts = reserveSizeDefault, true
	}
	return s
}

// SpaceLimitsOf returns a server's limits on a file system of total bytes: it refuses writes if less than 1 GiB is
// free, room for many full segments and snapshots on a disk of any size, or less than a tenth if that is less.
func SpaceLimitsOf(total uint64) SpaceLimits {
	refuse := min(spaceRefuseBytes, max(int64(total/spaceRefuseShare), 1))
	return SpaceLimits{RefusePercent: -1, RefuseBytes: refuse}.withDefaults()
}

// Level returns what the limits allow on a file system of total bytes, free of them free, and of filesTotal files (0
// if it doesn't say), filesFree of which can still be made.
func (s SpaceLimits) Level(free, total, filesFree, filesTotal uint64) SpaceLevel {
	switch {
	case free < s.refuse(total), filesTotal > 0 && filesFree < filesRefuse:
		return SpaceRefuse
	case free < min(percent(total, s.WarnPercent), spaceWarnBytes), filesTotal > 0 && filesFree < filesWarn:
		return SpaceWarn
	}
	return SpaceOK
}

// refuse returns the free bytes below which writes are refused.
func (s SpaceLimits) refuse(total uint64) uint64 {
	return max(percent(total, s.RefusePercent), uint64(max(s.RefuseBytes, 0)))
}

func percent(total uint64, p int) uint64 { return total / 100 * uint64(max(p, 0)) }

// SpaceLevel says what the free space allows.
type SpaceLevel int

// The levels of free space, from good to bad.
const (
	SpaceOK     SpaceLevel = iota
	SpaceWarn              // tell the operator
	SpaceRefuse            // accept no writes from clients; raft's own writes still fit
)

// SpaceState is the free space and its consequences.
type SpaceState struct {
	Free, Total           uint64 // bytes
	FilesFree, FilesTotal uint64 // how many files can be created, and how many there can be; 0 if unknown
	Level                 SpaceLevel
	// Denied says that the file system shows room, but a spare or the reserve could not be made, or a write of the log
	// waits: because of a quota, for example.
	Denied bool
	// Waits says that a write of the log waits for room: nothing can enter the log until there is some.
	Waits bool
	// Short says that space has to be freed before it runs out: a snapshot should be taken soon, and
	// Purge keeps only one.
	Short bool
	// LogRoom is how many bytes the log may take before writes are refused, including those that it takes now.
	LogRoom int64
}

// space watches the free space and holds the reserve: a file that only occupies space. The file is removed when a new
// segment no longer fits, so that a HardState or a few entries from a leader can still be written.
type space struct {
	fs     FS
	path   string
	limits SpaceLimits

	mu   sync.Mutex
	held bool
	lent int // snapshots for which the reserve was released
}

// adopt takes over the reserve of the previous process, or creates one, also if a crash or an error left an empty file.
// It isn't an error if the disk has no room for the reserve.
func (s *space) adopt(held bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held {
		size, err := fileSize(s.fs, filepath.Join(s.path, reserveName))
		held = err == nil && size > 0
	}
	s.held = held
	return s.holdLocked()
}

func (s *space) holdLocked() error {
	if s.held || s.limits.ReserveBytes < 0 {
		return nil
	}
	path := filepath.Join(s.path, reserveName)
	f, err := s.fs.Create(path)
	if err != nil {
		if NoRoom(err) {
			return nil
		}
		return fmt.Errorf("create reserve: %w", err)
	}
	defer f.Close()
	if err := f.Allocate(s.limits.ReserveBytes); err != nil {
		if NoRoom(err) {
			return s.fs.Remove(path)
		}
		return fmt.Errorf("allocate reserve: %w", err)
	}
	s.held = true
	return nil
}

// release removes the reserve and reports whether that has freed its space.
func (s *space) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return false
	}
	s.held = false
	return s.fs.Remove(filepath.Join(s.path, reserveName)) == nil
}

// lend says that a snapshot uses the reserve's space, or no longer does.
func (s *space) lend(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.lent++
	} else {
		s.lent--
	}
}

// lacksRoom reports whether the log lacks room, regardless of statfs.
func (d *Dir) lacksRoom() bool {
	s := &d.log.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted > 0 || d.log.AwaitsRoom()
}

// SpaceState returns how much room there is, on the fuller disk if the log has one of its own. It
// should be called once a second, because it also acts: on a disk that is nearly full it removes
// spare segments, and as soon as there is room again it restores the reserve.
func (d *Dir) SpaceState() (SpaceState, error) {
	state, err := d.look()
	if err == nil && state.Level == SpaceRefuse {
		var gave bool
		if gave, err = d.log.spares.giveUp(1); err != nil {
			return state, d.log.fail(err)
		}
		if gave {
			state, err = d.look()
		}
	}
	if err != nil {
		return SpaceState{}, err
	}
	d.log.spares.save(state.Level == SpaceRefuse)
	state.Waits = d.log.AwaitsRoom()
	if state.Level == SpaceRefuse {
		return state, nil
	}
	lacks := d.log.spares.lacking()
	if state.Waits {
		lacks = true
	} else {
		var held bool
		held, err = d.space.hold()
		lacks = lacks || !held
	}
	if lacks {
		state.Level, state.Short, state.Denied, state.LogRoom = SpaceRefuse, true, true, d.log.bytesOnDisk()
	}
	return state, err
}

// look returns the state of the free space in all directories and changes nothing.
func (d *Dir) look() (worst SpaceState, err error) {
	room, short := int64(0), false
	var files, filesTotal uint64
	for i, dir := range d.dirs() {
		state, err := d.space.of(dir)
		if err != nil {
			return SpaceState{}, err
		}
		short = short || state.Short
		if state.FilesTotal > 0 && (filesTotal == 0 || state.FilesFree < files) {
			files, filesTotal = state.FilesFree, state.FilesTotal
		}
		if dir == d.log.path {
			room = state.LogRoom + d.log.bytesOnDisk()
		}
		if i == 0 || state.Level > worst.Level {
			worst = state
		}
	}
	worst.Short, worst.LogRoom, worst.FilesFree, worst.FilesTotal = short, room, files, filesTotal
	return worst, nil
}

// bytesOnDisk returns the size of segments and spares, in bytes.
func (l *Log) bytesOnDisk() (n int64) {
	l.mu.RLock()
	for _, s := range l.segments {
		n += int64(s.size)
	}
	l.mu.RUnlock()
	l.spares.mu.Lock()
	defer l.spares.mu.Unlock()
	return n + int64(len(l.spares.ready))*l.target
}

// of returns the state of the free space in one directory's file system.
func (s *space) of(dir string) (SpaceState, error) {
	free, total, err := s.fs.Free(dir)
	if err != nil {
		return SpaceState{}, fmt.Errorf("free space of %s: %w", dir, err)
	}
	limit := s.limits.refuse(total)
	state := SpaceState{
		Free: free, Total: total, Short: free < shortFactor*limit,
		LogRoom: int64(min(free, 1<<62)) - int64(min(limit, 1<<62)),
	}
	if state.FilesFree, state.FilesTotal, err = s.fs.Files(dir); err != nil {
		return SpaceState{}, fmt.Errorf("free files of %s: %w", dir, err)
	}
	if state.FilesTotal > 0 {
		state.Short = state.Short || state.FilesFree < shortFactor*filesRefuse
	}
	state.Level = s.limits.Level(free, total, state.FilesFree, state.FilesTotal)
	return state, nil
}

// hold creates the reserve again if it was released. It reports whether the reserve is held, or none is configured.
func (s *space) hold() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent > 0 {
		return false, nil // the snapshot returns it; only then it shows whether there is room
	}
	err := s.holdLocked()
	return s.held || s.limits.ReserveBytes < 0, err
}
