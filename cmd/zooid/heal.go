package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
)

// asidesMax bounds the copies that a server keeps of its own data by itself: one that
// diverges again and again has a machine or a version that is broken, and must not fill
// its disk either.
const asidesMax = 3

// heal prepares a server for its next Open, if failure, which Failed delivered, says
// that its state was proven wrong by a majority of the others: its data is set aside, so
// that it takes everything from them. healed is false for any other failure. The server
// must be closed.
func heal(opt server.Options, failure error, now time.Time) (healed bool, err error) {
	var diverged *server.DivergedError
	if !errors.As(failure, &diverged) {
		return false, nil
	}
	if n, err := storage.Asides(opt.DataDir); err != nil || n >= asidesMax {
		return false, errors.Join(err, fmt.Errorf("this server has set its data aside %d times already, the most it does by itself: find out why it diverges (its memory, its disk, its version), remove the folders aside-* in %s that are of no use any more, and start it again", n, opt.DataDir))
	}
	name := "diverged-" + now.UTC().Format("20060102T150405.000Z")
	if err := storage.SetAside(opt.DataDir, opt.LogDir, name); err != nil {
		return false, err
	}
	opt.Log.Error("this server's data is set aside for a report; it takes everything from the others now", "aside", filepath.Join(opt.DataDir, "aside-"+name), "why", diverged)
	return true, nil
}
