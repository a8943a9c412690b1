//go:build unix

package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
)

// asidesMax bounds the copies of its data that a server sets aside by itself. A server that
// diverges repeatedly has a broken machine or version, and must not fill its disk.
const asidesMax = 3

// heal prepares a closed server for its next Open. If its failure, which Failed delivered, says that a majority proved
// its state wrong, that the others have founded an ensemble without it, or that its data is of a former life, its data
// is set aside, so that it takes everything from the others, and it founds no ensemble. healed is false for any other
// failure.
func heal(opt server.Options, failure error, now time.Time) (healed bool, err error) {
	var diverged *server.DivergedError
	var former *server.FormerLifeError
	overtaken, old := errors.Is(failure, server.ErrOvertaken), errors.As(failure, &former)
	if !errors.As(failure, &diverged) && !overtaken && !old {
		return false, nil
	}
	// The server has just closed: another process may have started on its data since.
	place := newensemble.Place{DataDir: opt.DataDir, LogDir: opt.LogDir}
	held, err := place.Hold()
	if err != nil {
		return false, err
	}
	defer held.Close()
	if n, err := storage.Asides(opt.DataDir); err != nil || n >= asidesMax {
		return false, errors.Join(err,
			runbook.Errorf("ZD-3404", "this server has already set its data aside %d times, the maximum without an operator: find the cause (memory, disk, version, old disks being put back), remove the folders aside-* in %s that are no longer needed, and start it again",
				n, opt.DataDir))
	}
	what := "diverged-"
	switch {
	case overtaken:
		what = "overtaken-"
	case old:
		what = "former-"
	}
	name := what + now.UTC().Format("20060102T150405.000Z")
	dropped, err := newensemble.DropFoundingOrder(opt.DataDir) // it was about the data
	if dropped {
		opt.Log.Warn("an order to found an ensemble is dropped: this server belongs to an ensemble, or joins one", "code", "ZD-3213")
	}
	err = errors.Join(err, newensemble.NoteAside(opt.DataDir, opt.ID, failure.Error(), "aside-"+name, now))
	if err != nil {
		return false, err
	}
	if err := storage.SetAside(opt.DataDir, opt.LogDir, name); err != nil {
		return false, err
	}
	if overtaken {
		opt.Log.Warn("the others have founded an ensemble without this server, and have all of its data: it sets its data aside, and joins them",
			"aside", filepath.Join(opt.DataDir, "aside-"+name), "code", "ZD-3409")
		return true, nil
	}
	if old {
		opt.Log.Warn("an older disk of this server was put back: it sets that data aside and joins again",
			"aside", filepath.Join(opt.DataDir, "aside-"+name), "why", former, "code", "ZD-3137")
		return true, nil
	}
	opt.Log.Error("this server's data is set aside for analysis; it now fetches all data from the others",
		"aside", filepath.Join(opt.DataDir, "aside-"+name), "why", diverged, "code", "ZD-3403")
	return true, nil
}
