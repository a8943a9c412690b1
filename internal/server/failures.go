package server

import (
	"errors"

	"github.com/zooid-project/zooid/internal/storage"
)

// failures end the server.
type failures struct {
	*engine
	fatal chan error
}

// fail makes Failed deliver err, after which the server can't go on, for example because its log
// can't be written.
func (f *failures) fail(err error) {
	if storage.NoRoom(err) && f.stopping() {
		f.log.Info("this server stops while a write of the log waits for room; nobody was told that it is safe", "err", err)
		return
	}
	f.meters.Unrecoverable.Inc()
	if stalled := (*StallError)(nil); errors.As(err, &stalled) {
		f.log.Error("the disk of the transaction log hangs; this server stops, so that its clients and its supervisor can act",
			"err", err, "code", "ZD-2005")
	} else if broken := (*storage.FatalError)(nil); errors.As(err, &broken) {
		f.log.Error("the transaction log can't be written; this server stops, and finds out at its next start what is on the disk",
			"err", err, "code", "ZD-2001")
	} else {
		f.log.Error("this server can't go on and stops", "err", err, "code", "ZD-2003")
	}
	select {
	case f.fatal <- err:
	default:
	}
}

// Failed delivers the error after which the server must be closed, if there is one.
func (f *failures) Failed() <-chan error { return f.fatal }
