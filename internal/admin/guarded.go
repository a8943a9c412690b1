package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// The guarded commands. They run only after permitted has returned true.

// streamStep is how much of a file is sent before the write deadline is renewed.
const streamStep = 1 << 20

// snapshotTimeout is how long writing a snapshot may take before the caller is told to ask again.
const snapshotTimeout = 10 * time.Minute

func (c *call) snapshot() {
	if c.admin.opt.SnapshotDisabled {
		c.fail(http.StatusServiceUnavailable, "Snapshots over HTTP are switched off (admin.snapshot.enabled)")
		return
	}
	stream := true
	if given := c.query.Get("streaming"); given != "" {
		stream = given == "true" || given == "TRUE" || given == "True"
	}
	open := c.zooidSnapshot
	switch format := c.query.Get("format"); {
	case format == "apache" && c.admin.opt.ApacheSnapshot != nil:
		open = c.apacheSnapshot
	case format != "" && format != "zooid":
		c.fail(http.StatusBadRequest, fmt.Sprintf("There is no format %.40q of snapshots; use zooid or apache", format))
		return
	}
	began := time.Now()
	if !c.admin.snapshots.begin(began) {
		c.of.AdminMeters().SnapshotsTooSoon.Inc()
		c.tooSoon(c.admin.snapshots.interval)
		return
	}
	defer c.admin.snapshots.end()
	c.admin.snapshots.count(began)
	ctx, cancel := context.WithTimeout(c.req.Context(), c.admin.opt.snapshotTimeout)
	defer cancel()
	control := http.NewResponseController(c.w)
	control.SetWriteDeadline(time.Now().Add(c.admin.opt.snapshotTimeout + answerTimeout))
	snap, err := open(ctx)
	if err != nil {
		c.of.AdminMeters().SnapshotsFailed.Inc()
		c.admin.opt.Log.Error("a snapshot for the admin server failed", "client", c.req.RemoteAddr, "err", err,
			"code", "ZD-4013")
		c.fail(http.StatusInternalServerError, err.Error())
		return
	}
	defer snap.Close()
	size := snap.size
	c.w.Header()["last_zxid"] = []string{fmt.Sprintf("0x%x", uint64(snap.zxid))} // spelled as Apache does
	c.w.Header()["snapshot_size"] = []string{strconv.FormatInt(size, 10)}
	if !stream {
		return
	}
	c.streamed = true
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for at := int64(0); at < size; at += streamStep {
		control.SetWriteDeadline(time.Now().Add(answerTimeout))
		step := io.NewSectionReader(snap, at, min(streamStep, size-at))
		if _, err := io.Copy(c.w, step); err != nil {
			c.of.AdminMeters().SnapshotsFailed.Inc()
			c.admin.log.Warn("a snapshot was sent only in part", "client", c.req.RemoteAddr, "sent", at, "of", size,
				"err", err, "code", "ZD-4014")
			panic(http.ErrAbortHandler) // so that the caller notices that the file is incomplete
		}
	}
}

// A snapshotFile is a snapshot to be sent.
type snapshotFile struct {
	io.ReaderAt
	io.Closer
	zxid, size int64
}

func (c *call) zooidSnapshot(ctx context.Context) (snapshotFile, error) {
	snap, err := c.of.TakeSnapshot(ctx)
	if err != nil {
		return snapshotFile{}, err
	}
	return snapshotFile{snap, snap, snap.Zxid, snap.Size()}, nil
}

// apacheSnapshot makes an Apache snapshot. The file disappears when it is closed.
func (c *call) apacheSnapshot(context.Context) (snapshotFile, error) {
	dir, err := os.MkdirTemp("", "zooid-snapshot-")
	if err != nil {
		return snapshotFile{}, fmt.Errorf("make a directory for a snapshot: %w", err)
	}
	defer os.RemoveAll(dir)
	path, zxid, err := c.admin.opt.ApacheSnapshot(dir)
	if err != nil {
		return snapshotFile{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return snapshotFile{}, fmt.Errorf("open a snapshot that was just made: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return snapshotFile{}, errors.Join(fmt.Errorf("open a snapshot that was just made: %w", err), f.Close())
	}
	return snapshotFile{f, f, zxid, st.Size()}, nil
}

// body reads the body of a command into a value. If it is invalid or too large, body answers the call.
func (c *call) body(into any) bool {
	b, err := io.ReadAll(c.req.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		c.fail(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The body has more than %d bytes, the maximum for this command", bodyBytesMax))
		return false
	case err != nil:
		c.fail(http.StatusBadRequest, "The body can't be read to its end")
		return false
	}
	if err := json.Unmarshal(b, into); err != nil {
		c.fail(http.StatusBadRequest, "The body isn't JSON that this command accepts: "+err.Error())
		return false
	}
	return true
}

func (c *call) shedConnections() {
	var ask struct {
		Percentage *int `json:"percentage"`
	}
	if !c.body(&ask) {
		return
	}
	if ask.Percentage == nil || *ask.Percentage < 0 || *ask.Percentage > 100 {
		c.fail(http.StatusBadRequest, `The body names no percentage from 0 to 100; send {"percentage": 20}`)
		return
	}
	shed := c.of.ShedConnections(*ask.Percentage)
	c.admin.opt.Log.Info("client connections were closed at the admin server's command", "client", c.req.RemoteAddr,
		"percent", *ask.Percentage, "closed", shed)
	c.set("connections_shed", shed)
	c.set("percentage_requested", *ask.Percentage)
}

// reasonBytesMax bounds the reason for a drain by force.
const reasonBytesMax = 1 << 10

// drain starts to let other servers take over, and answers when they have. With undo=true it ends that. With why=REASON
// it doesn't ask whether enough servers go on serving.
func (c *call) drain() {
	if c.query.Get("undo") == "true" {
		c.of.Undrain()
		c.set("drained", false)
		return
	}
	force := c.query.Get("why")
	if c.query.Has("why") && (force == "" || len(force) > reasonBytesMax) {
		c.fail(http.StatusBadRequest, fmt.Sprintf("A drain by force needs a reason (why) of 1 to %d bytes", reasonBytesMax))
		return
	}
	http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.admin.opt.DrainTimeout + answerTimeout))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.req.Context()), c.admin.opt.DrainTimeout)
	defer cancel()
	if err := c.of.Drain(ctx, force); err != nil {
		status := http.StatusInternalServerError
		if refused := (*quorum.DrainRefusedError)(nil); errors.As(err, &refused) || errors.Is(err, quorum.ErrAlone) {
			status = http.StatusConflict
		}
		c.fail(status, err.Error())
		return
	}
	c.set("drained", true)
}

// reload reads the configuration again.
func (c *call) reload() {
	if c.admin.opt.Reload == nil {
		c.fail(http.StatusServiceUnavailable, "The server was started without a configuration file; there is nothing to read again")
		return
	}
	done, err := c.admin.opt.Reload()
	if err != nil {
		c.fail(http.StatusInternalServerError, err.Error())
		return
	}
	c.set("in_force", done.InForce)
	c.set("need_restart", done.NeedRestart)
}
