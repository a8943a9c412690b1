package server

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// A file system has no room if no bytes are left, if no file can be created, or if a quota is used up; the log notices
// the last one by failing to make its next file (storage.SpaceState). The server treats all three alike.
//
// A disk that fills up must not end the service while there is still a remedy. The server frees space early: the less
// room the log has, the sooner a snapshot is written and the log before it removed, and where room is short only one
// snapshot is kept. The server checks the free space once a second. If it still falls below the limit, the server
// answers its clients' writes with jute.ErrThrottledOp, which means "not executed at all", in their place among the
// other replies. Connections, reads, heartbeats, closeSession and expiry continue; the log keeps a reserve for them. A
// leader asks another server to lead instead, once, because it can't refuse requests that other servers forward. If not
// even the reserve has room for the log's next entries, the log waits: in an ensemble its clients go to other servers,
// which are more up to date, and a standalone server still answers reads. When there is room again, everything resumes
// by itself.

const (
	// spaceInterval is the time between two checks of the free space: a second of writes at full
	// speed is far less than the limit.
	spaceInterval = time.Second
	// spaceIntervalShort replaces spaceInterval where space is short, or after one spaceGrowthShare of
	// the log's room was written since the last check.
	spaceIntervalShort = 50 * time.Millisecond
	spaceGrowthShare   = 16
	// roomPause is how long a write of the log waits before it checks again for room.
	roomPause = 100 * time.Millisecond
)

// spaceLimits returns the limits of free space on the file systems of the data and log directories: those of the
// smaller one.
func spaceLimits(opt Options) storage.SpaceLimits {
	limits := storage.SpaceLimitsOf(math.MaxUint64)
	for _, dir := range []string{opt.DataDir, opt.LogDir} {
		_, total, err := storage.OS{}.Free(dir)
		for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir) // dir is created later, on the same file system
			_, total, err = storage.OS{}.Free(dir)
		}
		if err == nil {
			limits.RefuseBytes = min(limits.RefuseBytes, storage.SpaceLimitsOf(total).RefuseBytes)
		}
	}
	return limits
}

// spaceSeen is the result of the last check of the free space.
type spaceSeen struct {
	level  storage.SpaceLevel
	low    bool   // the free space was below the limit
	short  bool   // space has to be freed
	waits  bool   // a write of the log waits for room
	denied bool   // the file system shows room, but gives none
	room   int64  // bytes of room for the log
	fault  string // why the free space couldn't be determined

	logged uint64 // bytes written to the log, in total
	grew   int64  // bytes written to the log since the previous check
	led    bool   // this server led, on a full disk
}

// diskSpace is the room on the file systems of the data and log directories.
type diskSpace struct {
	*engine
	clients clientsFile
	refuse  uint64 // free space (bytes) below which clients' writes are refused

	// free (bytes), files and level are results of the last check; level is a storage.SpaceLevel.
	free, files, level atomic.Int64
}

// watch follows the free space until the server stops. It checks more often when a second
// of writes might fill the disk. It also keeps wordclient.ClientsFile.
func (s *diskSpace) watch(seen spaceSeen) {
	s.clients.remove()
	defer s.clients.remove()
	for s.pause(max(seen.pause(), s.opt.spacePause)) {
		seen = s.look(seen)
		s.clients.keep()
	}
}

// pause returns the time until the next check.
func (seen *spaceSeen) pause() time.Duration {
	if seen.denied {
		return spaceInterval // each check tries to make a file
	}
	if seen.short || seen.grew > seen.room/spaceGrowthShare {
		return spaceIntervalShort
	}
	return spaceInterval
}

// look checks the free space, acts on it, and returns the result to compare the next check with.
// It frees space before anything is refused: when the free space falls below the limit, writes are
// accepted until the next check, unless no more than half of the limit is left.
func (s *diskSpace) look(before spaceSeen) spaceSeen {
	state, err := s.dir.SpaceState()
	if err == nil && state.Short {
		quorum.Purge(s.dir, s.opt.SnapshotsKept, 0, s.log)
		state, err = s.dir.SpaceState()
	}
	logged := s.dir.Log().Stats().AppendBytes
	seen := spaceSeen{
		level: state.Level, low: state.Level == storage.SpaceRefuse, short: state.Short, room: state.LogRoom,
		logged: logged, grew: int64(logged - before.logged), waits: state.Waits, denied: state.Denied,
	}
	if err != nil {
		seen.level, seen.low, seen.short, seen.fault = before.level, before.low, before.short, err.Error()
		if seen.fault != before.fault {
			s.log.Error("the free space can't be determined; clients' writes are still accepted", "err", err, "code", "ZD-2020")
		}
		return s.transferLeadership(before, seen)
	}
	if seen.low && !before.low && !seen.denied && state.Free > s.refuse/2 {
		state.Level, seen.level = before.level, before.level
	}
	if seen.level != before.level {
		s.report(before.level, state)
	}
	if seen.waits != before.waits {
		s.reportWait(seen.waits)
	}
	s.free.Store(int64(state.Free))
	s.files.Store(int64(min(state.FilesFree, 1<<62)))
	s.level.Store(int64(seen.level))
	s.replica.Space(state, s.peer.Status().Needed)
	return s.transferLeadership(before, seen)
}

// transferLeadership transfers leadership to another server, once, if this one leads with a full disk.
func (s *diskSpace) transferLeadership(before, seen spaceSeen) spaceSeen {
	seen.led = seen.level == storage.SpaceRefuse && s.peer.Status().IsLeader
	if seen.led && !before.led {
		s.peer.TransferLeadership()
	}
	return seen
}

// reportWait tells the operator that a write of the log waits for room, or no longer does.
func (s *diskSpace) reportWait(waits bool) {
	if !waits {
		s.log.Info("the log has room again and is written")
		return
	}
	s.log.Error("no room is left for the log, not even in its reserve: nothing is appended until there is room; make some, nothing needs to be restarted",
		"dataLogDir", s.opt.LogDir, "code", "ZD-2023")
}

// reportCopying warns of a file system where the reserve doesn't help.
func reportCopying(opt Options) {
	if kind := storage.CopiesOnWrite(opt.LogDir); kind != "" {
		opt.Log.Warn("the log is on a file system that copies blocks on overwrite: when it is full, sessions can't begin or end; put the log on ext4, XFS or btrfs, or reserve space for it",
			"dataLogDir", opt.LogDir, "fileSystem", kind, "code", "ZD-2025")
	}
}

// awaitsRoom returns 1 if a write of the log waits for room, else 0.
func (s *diskSpace) awaitsRoom() int64 {
	if s.dir.Log().AwaitsRoom() {
		return 1
	}
	return 0
}

// report tells the operator that the level has changed.
func (s *diskSpace) report(before storage.SpaceLevel, now storage.SpaceState) {
	where := []any{"dataDir", s.opt.DataDir, "dataLogDir", s.opt.LogDir, "freeBytes", now.Free, "ofBytes", now.Total}
	if now.FilesTotal > 0 {
		where = append(where, "freeFiles", now.FilesFree)
	}
	switch {
	case now.Level == storage.SpaceRefuse && now.Denied:
		s.log.Error("the file system reports free space, but this server can't create the log's next file, as when a quota is used up: this server refuses its clients' writes until there is room; raise the quota or make room; reads continue, and nothing needs to be restarted",
			append(where, "code", "ZD-2024")...)
	case now.Level == storage.SpaceRefuse:
		s.log.Error("the disk is nearly full: this server refuses its clients' writes until there is room; make some, or enlarge the file system; reads continue, and nothing needs to be restarted",
			append(where, "code", "ZD-2021")...)
	case before == storage.SpaceRefuse:
		s.log.Info("there is room on the disk again: clients' writes are accepted", where...)
	case now.Level == storage.SpaceWarn:
		s.log.Warn("the disk fills up; this server refuses its clients' writes once less than 1 GiB is free, or a tenth of a small disk, or almost no files can be created",
			append(where, "code", "ZD-2022")...)
	}
}
