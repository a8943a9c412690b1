package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSlowSyncIsLogged: a flush of the log that takes longer than fsync.warningthresholdms leaves a line.
func TestSlowSyncIsLogged(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]int{time.Hour: 1, 0: 0} {
		var out bytes.Buffer
		s := open(t, Options{FsyncWarning: limit, Log: slog.New(slog.NewTextHandler(&out, nil))})
		s.synced(limit, 1)
		s.synced(2*time.Hour, 1)
		s.Close()
		if n := strings.Count(out.String(), "disk is slow"); n != want {
			t.Errorf("with a limit of %v, %d lines: %s", limit, n, out.String())
		}
	}
}
