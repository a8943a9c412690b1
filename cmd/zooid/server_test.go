package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestCommandLine runs what doesn't start anything.
func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "usage:"}, {"help", 0, "server"}, {"nonsense", 2, `no command "nonsense"`}, {"version", 0, "zooid"},
		{"server -h", 0, "zoo.cfg"}, {"server -x", 2, "-x"}, {"server /does/not/exist", 2, "/does/not/exist"}, {"log", 2, "DATADIR"},
	} {
		var out bytes.Buffer
		code := run(strings.Fields(c.args), &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("zooid %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}
