package storage

import (
	"errors"
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
)

// SpaceLimits are the limits on free space. Zero fields mean the default, negative ones none.
type SpaceLimits struct {
	WarnPercent   int   // below this share of free space, warn; 20
	RefusePercent int   // below this share, or
	RefuseBytes   int64 // these bytes, refuse writes; 5 and 1 GiB
	ReserveBytes  int64 // held back for the log's own needs on a full disk; 16 MiB
}

func (s SpaceLimits) withDefaults() SpaceLimits {
	if s.WarnPercent == 0 {
		s.WarnPercent = spaceWarnPercent
	}
	if s.RefusePercent == 0 {
		s.RefusePercent = spaceRefusePercent
	}
	if s.RefuseBytes == 0 {
		s.RefuseBytes = spaceRefuseBytes
	}
	if s.ReserveBytes == 0 {
		s.ReserveBytes = reserveSizeDefault
	}
	return s
}

// SpaceLevel says what the free space allows.
type SpaceLevel int

// The levels of free space, from good to bad.
const (
	SpaceOK     SpaceLevel = iota
	SpaceWarn              // tell the operator
	SpaceRefuse            // accept no writes from clients; what raft itself must write still fits
)

// SpaceState is the free space and what follows from it.
type SpaceState struct {
	Free, Total uint64 // bytes
	Level       SpaceLevel
}

// space watches the free space and keeps the reserve: a file whose only content is room. It is given up when a new
// segment does not fit any more, so that a HardState or a few entries of a leader still can be written.
type space struct {
	fs     FS
	path   string
	limits SpaceLimits

	mu   sync.Mutex
	held bool
}

// adopt takes over the reserve of the last process, or makes one. A disk too full for that is no error.
func (s *space) adopt(held bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		return fmt.Errorf("create reserve: %w", err)
	}
	defer f.Close()
	if err := f.Allocate(s.limits.ReserveBytes); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return s.fs.Remove(path)
		}
		return fmt.Errorf("allocate reserve: %w", err)
	}
	s.held = true
	return nil
}

// release gives the reserve up; it reports whether there was one.
func (s *space) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return false
	}
	s.held = false
	return s.fs.Remove(filepath.Join(s.path, reserveName)) == nil
}

// SpaceState tells how much room there is, on the fuller disk if the log has one of its own. It is meant to be asked
// about once a second: as soon as there is room again it takes back the reserve and says so.
func (d *Dir) SpaceState() (SpaceState, error) {
	var worst SpaceState
	for i, dir := range d.dirs() {
		state, err := d.space.of(dir)
		if err != nil {
			return SpaceState{}, err
		}
		if i == 0 || state.Level > worst.Level {
			worst = state
		}
	}
	if worst.Level == SpaceRefuse {
		return worst, nil
	}
	if d.log.spares.full() {
		worst.Level = SpaceRefuse // whatever statfs says, as with a quota; the next Append tries again
	}
	held, err := d.space.hold()
	if !held {
		worst.Level = SpaceRefuse
	}
	return worst, err
}

// of judges the free space of one directory's file system.
func (s *space) of(dir string) (SpaceState, error) {
	free, total, err := s.fs.Free(dir)
	if err != nil {
		return SpaceState{}, fmt.Errorf("free space of %s: %w", dir, err)
	}
	state := SpaceState{Free: free, Total: total}
	percent := func(p int) uint64 { return total / 100 * uint64(max(p, 0)) }
	switch {
	case free < max(percent(s.limits.RefusePercent), uint64(max(s.limits.RefuseBytes, 0))):
		state.Level = SpaceRefuse
	case free < percent(s.limits.WarnPercent):
		state.Level = SpaceWarn
	}
	return state, nil
}

// hold takes the reserve back if it was given up; it reports whether all that should be held is.
func (s *space) hold() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.holdLocked()
	return s.held || s.limits.ReserveBytes < 0, err
}
