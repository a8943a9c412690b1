package storage

import (
	"errors"
	"fmt"
)

// DamageError says that a file of the data directory differs from what was durably written. The server must not start
// with it, because it would forget acknowledged writes. Find it with errors.As.
type DamageError struct {
	File   string // path
	Offset int64  // where the first wrong byte in File is, or the frame that holds it begins
	Reason string // what was expected and what was found
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// FormatError says that a file, the header of which is whole, is of a newer format than this version reads. What can't
// use a damaged file can't use this one either, so it wraps a DamageError. Find it with errors.As.
type FormatError struct{ DamageError }

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s is of a newer version of Zooid than this one, which can't read it: %s. Use the version that wrote it",
		e.File, e.Reason)
}

func (e *FormatError) Unwrap() error { return &e.DamageError }

// FatalError is the first failed write, sync or rename of the log. From then on the content of the
// disk is unknown: the process must end, and the next start determines what is there. The log
// returns the same error for everything after it. Find it with errors.As.
type FatalError struct {
	Op   string // what was attempted: "write", "fdatasync" ...
	File string
	Err  error
}

func (e *FatalError) Error() string {
	return fmt.Sprintf("%s %s: %v: the log accepts nothing more; the server must stop", e.Op, e.File, e.Err)
}

func (e *FatalError) Unwrap() error { return e.Err }

// ClusterError says that a directory belongs to another ensemble. Find it with errors.As.
type ClusterError struct {
	File          string
	Found, Wanted uint64 // cluster ids
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("%s belongs to cluster %#x, this server to cluster %#x. Nothing was changed. Check the data directory's path",
		e.File, e.Found, e.Wanted)
}

// MissingError says that one of a server's two directories, for snapshots and for the log, lacks
// something that it must have had according to the other: its file system is not mounted, it was
// emptied or lost, or the paths were mixed up. Nothing was changed. Find it with errors.As.
type MissingError struct {
	Dir, Other string // the directory that lacks something, and the one that proves it
	Reason     string
	Do         string // what to do
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s and %s do not belong together: %s. Nothing was changed. %s", e.Dir, e.Other, e.Reason, e.Do)
}

// doRestore is the advice for a lost directory out of two.
const doRestore = "Is its file system mounted? If so restore it from a copy, or, " + DoMove

// DoMove is the advice for data that can't be used if the other servers have everything.
const DoMove = "if a quorum of the other servers of its ensemble runs, move " + identityName + ", *" + segmentSuffix + " and *" +
	snapshotSuffix +
	" of the data and log directories to another folder, keep them, leave myid and PEERSECRET, and start this server again: " +
	"it joins under its id and takes everything from the others"

// ErrClosed is returned by methods of a closed Dir and of its Log.
var ErrClosed = errors.New("data directory is closed")

func damaged(file string, off int64, format string, args ...any) error {
	return &DamageError{File: file, Offset: off, Reason: fmt.Sprintf(format, args...)}
}
