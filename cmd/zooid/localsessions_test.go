package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// TestLocalSessions: which settings are refused, and which draw a warning.
func TestLocalSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sessions config.Sessions
		refused  bool
		warned   bool
	}{
		{config.Sessions{}, false, false},
		{config.Sessions{LocalUpgrading: true}, false, false},
		{config.Sessions{Local: true}, true, false},
		{config.Sessions{Local: true, LocalUpgrading: true}, false, true},
	} {
		var said bytes.Buffer
		err := localSessions(&c.sessions, slog.New(slog.NewTextHandler(&said, nil)))
		if (err != nil) != c.refused || (said.Len() > 0) != c.warned {
			t.Errorf("%+v: %v, logged %q", c.sessions, err, said.String())
		}
		if err != nil && !strings.Contains(err.Error(), "localSessionsEnabled") {
			t.Errorf("the refusal does not name the key: %v", err)
		}
	}
}
