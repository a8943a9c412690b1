package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// restoreTimeout is how long the ensemble may take to put a snapshot in force.
const restoreTimeout = 11 * time.Minute

// restore replaces the ensemble's data by the snapshot in the body. The body is first written to a file, and the file
// is read completely before the ensemble is asked for anything.
func (c *call) restore() {
	switch {
	case c.admin.opt.RestoreDisabled:
		c.fail(http.StatusServiceUnavailable, "Restores over HTTP are switched off (admin.restore.enabled)")
		return
	case c.admin.opt.Znodes == nil:
		c.fail(http.StatusServiceUnavailable, "This server has no way to read a snapshot")
		return
	case c.req.ContentLength == 0:
		c.fail(http.StatusBadRequest, "The body is empty; send a snapshot, as the command snapshot streams it, or a snapshot file of Apache's")
		return
	case c.req.ContentLength > c.admin.opt.restoreBytes:
		c.tooLargeToRestore()
		return
	}
	began, meters := time.Now(), c.of.AdminMeters()
	if !c.admin.restores.begin(began) {
		meters.RestoresTooSoon.Inc()
		c.tooSoon(c.admin.restores.interval)
		return
	}
	defer c.admin.restores.end()
	restored := false
	defer func() {
		if restored {
			meters.Restore.Observe(time.Since(began).Milliseconds())
		} else {
			meters.RestoresFailed.Inc()
		}
	}()
	dir, err := os.MkdirTemp("", "zooid-restore-")
	if err != nil {
		c.fail(http.StatusInternalServerError, "The snapshot can't be kept: "+err.Error())
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "snapshot")
	if !c.spool(file) {
		return
	}
	znodes, err := c.admin.opt.Znodes(file)
	if err != nil {
		c.fail(http.StatusBadRequest,
			"The body isn't a snapshot to restore: "+strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
		return
	}
	c.admin.restores.count(began) // not earlier: a body that is no snapshot has cost the ensemble nothing
	http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(restoreTimeout + answerTimeout))
	zxid, err := c.of.Restore(c.req.Context(), c.req.RemoteAddr, c.ids, znodes)
	if err != nil {
		c.admin.opt.Log.Error("a restore by the admin server failed", "client", c.req.RemoteAddr, "err", err,
			"code", "ZD-4019")
		c.fail(http.StatusInternalServerError, err.Error())
		return
	}
	c.admin.opt.Log.Warn("the ensemble was restored from a snapshot by the admin server; all sessions have ended",
		"client", c.req.RemoteAddr, "zxid", fmt.Sprintf("%#x", zxid), "bytes", c.req.ContentLength, "code", "ZD-4020")
	c.set("last_zxid", zxid)
	restored = true
}

// spool writes the body to a file. If the body is too large or incomplete, spool answers the call.
func (c *call) spool(file string) bool {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		c.fail(http.StatusInternalServerError, "The snapshot can't be kept: "+err.Error())
		return false
	}
	defer f.Close()
	control := http.NewResponseController(c.w)
	var large *http.MaxBytesError
	for {
		control.SetReadDeadline(time.Now().Add(c.admin.opt.bodyTimeout))
		control.SetWriteDeadline(time.Now().Add(c.admin.opt.bodyTimeout + answerTimeout))
		n, err := io.CopyN(f, bodyReader{c.req.Body}, restoreStep)
		var broken bodyError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && n < restoreStep:
			if st, err := f.Stat(); err != nil || st.Size() == 0 {
				c.fail(http.StatusBadRequest, "The body is empty; send a snapshot")
				return false
			}
			if err := f.Close(); err != nil {
				c.fail(http.StatusInternalServerError, "The snapshot can't be kept: "+err.Error())
				return false
			}
			return true
		case errors.As(err, &large):
			c.tooLargeToRestore()
			return false
		case errors.As(err, &broken):
			c.fail(http.StatusBadRequest, "The body can't be read to its end; nothing was restored")
			return false
		default:
			c.fail(http.StatusInternalServerError, "The snapshot can't be kept: "+err.Error())
			return false
		}
	}
}

func (c *call) tooLargeToRestore() {
	c.fail(http.StatusRequestEntityTooLarge,
		fmt.Sprintf("The body has more than %d bytes, the most that can be restored while the ensemble runs; stop the servers and start them on a copy of a data directory",
			c.admin.opt.restoreBytes))
}

// A bodyReader marks errors as the caller's.
type bodyReader struct{ io.Reader }

type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

func (r bodyReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = bodyError{err}
	}
	return n, err
}
