package runbook

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestHandler: a warning of a package that knows no codes gets its code, also through With; other lines stay as they
// are.
func TestHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(Handler(slog.NewTextHandler(&out, nil)))
	for _, c := range []struct {
		line func()
		ends string
	}{
		{func() { log.Warn("this server has lost its leader", "leader", 3) }, " leader=3 code=ZD-3005\n"},
		{func() { log.With("server", 1).Warn("this server has lost its leader") }, " server=1 code=ZD-3005\n"},
		{func() { log.Info("this server has lost its leader") }, "has lost its leader\"\n"},
		{func() { log.Error("something else", "code", "ZD-2003") }, "else\" code=ZD-2003\n"},
	} {
		out.Reset()
		c.line()
		if got := out.String(); !strings.HasSuffix(got, c.ends) || strings.Count(got, "code=") > 1 {
			t.Errorf("%q, want the end %q", got, c.ends)
		}
	}
}
