package storage

import (
	"errors"
	"fmt"
	"syscall"
)

// A file system may have no room in three ways: no bytes are left (ENOSPC), no file can be created although bytes are
// left (ENOSPC too), or a quota is used up (EDQUOT). This package treats all three alike, as the class of error that
// this file defines. statfs shows the first, on most file systems the second, and never the third. Only an attempt is
// proof: a file system has room if the next spare and the reserve could be made.
//
//	what fails                    what is known                                      what happens
//	create, allocate, rename      nothing was done                                   RoomError: try again when there is room
//	write                         at most a part of these bytes is in the file       RoomError: write all of them again,
//	                                                                                 at the same place
//	sync of a file that nothing   the file is worthless                              RoomError: remove the file, make another
//	relies on yet (a spare, a
//	snapshot under a tmp name)
//	sync of a segment or of a     nothing, then or later: a second sync may          FatalError: the process ends, and Open
//	directory                     succeed without writing what the first one lost    reads what is on the disk
//
// No sync is ever repeated. A write is repeated only before the sync that makes it durable, and with the same bytes, so
// that it overwrites the previous attempt. Some file systems (NFS) report only with a later write that an earlier one
// found no room. All earlier writes of a segment were synced, so the earlier one can only be a part of the same write.

// RoomError says that a call failed because its file system has no room: no bytes, no inodes, or no more of a quota.
// Nothing that was durable is lost, and the same can be tried again. Find it with errors.As.
type RoomError struct {
	Op   string // what was attempted: "create", "write" ...
	File string
	Err  error
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("%s %s: there is no room: %v", e.Op, e.File, e.Err)
}

func (e *RoomError) Unwrap() error { return e.Err }

// NoRoom reports whether err says that a file system has no room: no bytes, no inodes, or no more of a quota.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// failure returns the error of a call on a file of the log: a RoomError if the call can be tried again, else a
// FatalError.
func failure(op, file string, err error) error {
	if NoRoom(err) {
		return &RoomError{op, file, err}
	}
	return &FatalError{op, file, err}
}

// lacksRoom reports whether err is, or wraps, a RoomError.
func lacksRoom(err error) bool {
	if err == nil {
		return false // without the allocation
	}
	var e *RoomError
	return errors.As(err, &e)
}

// makeRoom frees space for the log: the segments that are superfluous after the newest snapshot, then the reserve, then
// the spares, which help where overwriting needs room. It reports whether there was anything to free. The caller holds
// write.
func (l *Log) makeRoom() (bool, error) {
	if freed, err := l.purgeNow(); freed || err != nil {
		return freed, err
	}
	if l.spares.reserve() {
		return true, nil
	}
	return l.spares.giveUp(0)
}

// ample repeats try while it lacks room and something can be freed. The caller holds write.
func (l *Log) ample(try func() error) error {
	for {
		err := try()
		if !lacksRoom(err) {
			return err
		}
		l.spares.save(true)
		freed, failed := l.makeRoom()
		if failed != nil {
			return failed
		}
		if !freed {
			return err
		}
	}
}

// awaitRoom waits for a while with write unlocked, and reports whether to try the write that lacks room again. The disk
// doesn't delay such a write, so WritingFor doesn't count it.
func (l *Log) awaitRoom() bool {
	if l.wait == nil || l.closing {
		return false
	}
	l.waiting.Store(true)
	underWay := l.writing.end()
	l.write.Unlock()
	again := l.wait()
	l.write.Lock()
	if underWay {
		l.writing.begin()
	}
	return again && l.Err() == nil
}

// AwaitsRoom reports whether a write of the log waits for room. It never blocks.
func (l *Log) AwaitsRoom() bool { return l.waiting.Load() }
