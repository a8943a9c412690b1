package server

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// A disk that fills up must not end the service while it still can be helped.
// Space is made in time: the less room the log has, the sooner a snapshot is
// written and the log before it removed, and where room is short one snapshot is
// kept only. The server looks at the free space once a second. If it is below the
// limit all the same, its clients' writes are answered with jute.ErrThrottledOp,
// "not executed at all", in their place among the other replies; connections,
// reads, heartbeats, closeSession and expiry go on, for which the log keeps a
// reserve. A leader asks another server to lead instead, once: it can't refuse what
// other servers forward. When there is room again all goes on by itself.

const (
	// spaceInterval is how often the free space is looked at: a second of writes at
	// full speed is far less than the limit.
	spaceInterval = time.Second
	// spaceIntervalShort is how often where space is short, or a spaceGrowthShare of the
	// log's room was written since the last look.
	spaceIntervalShort = 50 * time.Millisecond
	spaceGrowthShare   = 16
	// spaceRefuseBytesMax and spaceRefuseShare make the limit: a gigabyte is room
	// for many full segments and snapshots on a disk of any size, and a small file
	// system would never have so much.
	spaceRefuseBytesMax = 1 << 30
	spaceRefuseShare    = 10
)

// spaceLimits are the limits of free space on the file systems of the data
// directory: a gigabyte must stay free, or a tenth of the smaller one if that is
// less.
func spaceLimits(opt Options) storage.SpaceLimits {
	limits := storage.SpaceLimits{RefusePercent: -1, RefuseBytes: spaceRefuseBytesMax}
	for _, dir := range []string{opt.DataDir, opt.LogDir} {
		_, total, err := storage.OS{}.Free(dir)
		for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir) // it is made later, on the same file system
			_, total, err = storage.OS{}.Free(dir)
		}
		if err == nil {
			limits.RefuseBytes = min(limits.RefuseBytes, max(int64(total/spaceRefuseShare), 1))
		}
	}
	return limits
}

// spaceSeen is what the last look at the free space has shown.
type spaceSeen struct {
	level storage.SpaceLevel
	low   bool   // it was below the limit
	short bool   // space is to be made
	room  int64  // for the log
	fault string // why it couldn't be told

	logged uint64 // bytes written to the log, in all
	grew   int64  // since the look before
	led    bool   // this server led, on a full disk
}

// watchSpace follows the free space until the server stops. It looks more often
// where a second of writes may fill the disk.
func (s *Server) watchSpace(seen spaceSeen) {
	defer s.wg.Done()
	for s.pause(seen.pause()) {
		seen = s.lookAtSpace(seen)
	}
}

// pause is the time until the next look.
func (seen *spaceSeen) pause() time.Duration {
	if seen.short || seen.grew > seen.room/spaceGrowthShare {
		return spaceIntervalShort
	}
	return spaceInterval
}

// lookAtSpace looks at the free space, does what follows from it, and returns
// what to compare the next look with. Space is made before anything is refused:
// below the limit writes are taken for one more look, unless half of it is gone.
func (s *Server) lookAtSpace(before spaceSeen) spaceSeen {
	state, err := s.dir.SpaceState()
	if err == nil && state.Short {
		quorum.Purge(s.dir, s.opt.SnapshotsKept, s.log)
		state, err = s.dir.SpaceState()
	}
	logged := s.dir.Log().Stats().AppendBytes
	seen := spaceSeen{
		level: state.Level, low: state.Level == storage.SpaceRefuse, short: state.Short, room: state.LogRoom,
		logged: logged, grew: int64(logged - before.logged),
	}
	if err != nil {
		seen.level, seen.low, seen.short, seen.fault = before.level, before.low, before.short, err.Error()
		if seen.fault != before.fault {
			s.log.Error("the free space can't be told; clients' writes go on as before", "err", err, "code", "ZD-2020")
		}
		return s.transferLeadership(before, seen)
	}
	if seen.low && !before.low && state.Free > s.spaceRefuse/2 {
		state.Level, seen.level = before.level, before.level
	}
	if seen.level != before.level {
		s.reportSpace(before.level, state)
	}
	s.spaceFree.Store(int64(state.Free))
	s.spaceLevel.Store(int64(seen.level))
	s.replica.Space(state)
	return s.transferLeadership(before, seen)
}

// transferLeadership lets another server lead, once, if this one does without room.
func (s *Server) transferLeadership(before, seen spaceSeen) spaceSeen {
	seen.led = seen.level == storage.SpaceRefuse && s.peer.Status().IsLeader
	if seen.led && !before.led {
		s.peer.TransferLeadership()
	}
	return seen
}

// reportSpace tells the operator when the level has changed.
func (s *Server) reportSpace(before storage.SpaceLevel, now storage.SpaceState) {
	where := []any{"dataDir", s.opt.DataDir, "dataLogDir", s.opt.LogDir, "freeBytes", now.Free, "ofBytes", now.Total}
	switch {
	case now.Level == storage.SpaceRefuse:
		s.log.Error("the disk is nearly full: this server refuses its clients' writes until there is room; make some, or enlarge the file system; reads go on, and nothing needs to be restarted", append(where, "code", "ZD-2021")...)
	case before == storage.SpaceRefuse:
		s.log.Info("there is room on the disk again: clients' writes are accepted", where...)
	case now.Level == storage.SpaceWarn:
		s.log.Warn("the disk fills up; this server refuses its clients' writes once less than 1 GiB is free, or a tenth of a small disk", append(where, "code", "ZD-2022")...)
	}
}
