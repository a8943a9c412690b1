//go:build unix

package main

import (
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"github.com/zooid-project/zooid/internal/audit"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
)

// auditSettings returns the configured settings of the audit log, or nil if there is no audit log.
func auditSettings(c *config.Audit) *server.Audit {
	if !c.Enabled {
		return nil
	}
	return &server.Audit{User: processUser(), Reads: c.Reads, Logins: c.Logins, Refusals: c.Refusals, Hashes: c.Hashes}
}

// auditOptions returns the options of the audit log's writer.
func auditOptions(c *config.Audit, stderr io.Writer, log *slog.Logger) audit.Options {
	return audit.Options{
		File: c.File, FileBytes: int64(c.FileMiB) << 20, FilesKept: c.FilesKept, JSON: c.Format == "json", Stderr: stderr,
		Log: log,
	}
}

// processUser returns the name of the user that this process runs as.
func processUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// A trail records in the audit log of a process when the server starts and stops.
type trail struct {
	log     *audit.Log // nil for none
	user    string
	started bool
}

// beginTrail opens the audit log, if one is configured, and sets it in the server's options.
func beginTrail(cfg *config.Config, o *server.Options, stderr io.Writer) (*trail, error) {
	if o.Audit == nil {
		return &trail{}, nil
	}
	l, err := audit.Open(auditOptions(&cfg.Audit, stderr, o.Log))
	if err != nil {
		return nil, runbook.Errorf("ZD-1125", "open the audit log: %w", err)
	}
	o.Audit.Log = l
	return &trail{log: l, user: o.Audit.User}, nil
}

// opened records that the server has started, or failed to start. It doesn't record that a server restarts by itself.
func (t *trail) opened(err error) {
	if t.log == nil || t.started && err == nil {
		return
	}
	t.started = err == nil
	result := audit.Success
	if err != nil {
		result = audit.Failure
	}
	t.log.Write(&audit.Entry{Users: []string{t.user}, Operation: audit.ServerStart, Result: result})
}

// end records that the server stops, and closes the log.
func (t *trail) end() {
	if t.log == nil {
		return
	}
	if t.started {
		t.log.Write(&audit.Entry{Users: []string{t.user}, Operation: audit.ServerStop, Result: audit.Invoked})
	}
	t.log.Close()
}
