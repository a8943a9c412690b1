package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

const (
	// readyStallMax is how long the loop may stand, a write of the log be under way, or the state of
	// the ensemble be unknown, before the server counts as not ready. It is longer than an election.
	readyStallMax = 3 * time.Second
	// snapshotStallMax is how long one disk operation for a snapshot may take before it is logged.
	snapshotStallMax = 20 * time.Second
	// stallLook is the interval at which watch checks the write under way.
	stallLook = 500 * time.Millisecond
)

// A StallError is delivered by Failed if a write of the log has been under way for longer than
// Options.FsyncStall. The process should then exit without Close, which would wait for the disk.
type StallError struct{ For, Most time.Duration }

func (e *StallError) Error() string {
	return fmt.Sprintf("a write of the transaction log has been under way for %v, longer than fsync.stallSeconds (%v): the disk hangs",
		e.For.Round(time.Second), e.Most)
}

// stalls are times in which the disk or the loop hangs.
type stalls struct {
	*engine
	failures *failures
	abandon  func() // closes all ports and connections without waiting for anything
}

// Stalled returns why the server can't do its work now, or "".
func (s *stalls) Stalled() string {
	if why := s.stands(); why != "" {
		return why
	}
	if d := s.replica.Behind(); d > readyStallMax {
		return fmt.Sprintf("nothing has been known of the ensemble for %v", d.Round(time.Second))
	}
	return ""
}

// stands is Stalled for the reasons within the server.
func (s *stalls) stands() string {
	if d := s.dir.Log().WritingFor(); d > readyStallMax {
		return fmt.Sprintf("a write of its log has been under way for %v: the disk hangs", d.Round(time.Second))
	}
	if d := s.peer.SinceTurn(); d > readyStallMax {
		return fmt.Sprintf("its main loop has been stuck for %v", d.Round(time.Second))
	}
	return ""
}

// watch closes the connections of clients whose sessions are in an unknown state, even while everything else stands
// still. It ends the server when a write of the log has been under way for too long, so that its supervisor and its
// clients can act. Time in which this process itself stood still doesn't count.
func (s *stalls) watch() {
	stall, snapshot, told := stallCount{most: s.opt.FsyncStall}, stallCount{most: snapshotStallMax}, false
	for s.pause(stallLook) {
		hangs := snapshot.look(s.dir.SnapshotWritingFor(), s.now())
		switch {
		case hangs && !told:
			s.log.Error("the disk hangs while a snapshot is written: the server continues, but its log grows until a snapshot is written; check the disk's state",
				"under way", s.dir.SnapshotWritingFor().Round(time.Second), "code", "ZD-2032")
		case told && !hangs:
			s.log.Info("the disk works again, and the snapshot continues")
		}
		told = hangs
		s.replica.LetOutdatedGo(s.now())
		if s.opt.FsyncStall > 0 && stall.look(s.dir.Log().WritingFor(), s.now()) {
			s.abandon()
			s.failures.fail(&StallError{For: s.dir.Log().WritingFor(), Most: s.opt.FsyncStall})
			return
		}
	}
}

// A stallCount adds up how long a write was seen under way.
type stallCount struct {
	most, seen time.Duration
	at         int64 // now (ns) of the last check
}

// look does the next check, and reports whether the write has been under way for too long.
func (c *stallCount) look(writing time.Duration, now int64) bool {
	passed := time.Duration(now - c.at)
	if writing < passed {
		c.seen = 0 // there is none, or it has begun since the last check
	} else {
		c.seen += min(passed, 2*stallLook) // more has passed if the process stood still
	}
	c.at = now
	return c.seen > c.most
}

// failures ends the server.
type failures struct {
	*engine
	fatal chan error
}

// fail makes Failed deliver err, after which the server can't continue, for example because its log can't be written.
func (f *failures) fail(err error) {
	if storage.NoRoom(err) && f.stopping() {
		f.log.Info("this server stops while a write of the log waits for room; the write was not acknowledged", "err", err)
		return
	}
	f.meters.Unrecoverable.Inc()
	if stalled := (*StallError)(nil); errors.As(err, &stalled) {
		f.log.Error("the disk of the transaction log hangs; this server stops, so that its clients and its supervisor can act",
			"err", err, "code", "ZD-2005")
	} else if broken := (*storage.FatalError)(nil); errors.As(err, &broken) {
		f.log.Error("the transaction log can't be written; this server stops, and its next start reads what is on the disk",
			"err", err, "code", "ZD-2001")
	} else {
		f.log.Error("this server can't continue and stops", "err", err, "code", "ZD-2003")
	}
	select {
	case f.fatal <- err:
	default:
	}
}

// Failed delivers the error after which the server must be closed, if there is one.
func (f *failures) Failed() <-chan error { return f.fatal }
