package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// TestWhatIsNotServed: a setting that isn't honoured is refused or warned about,
// never passed over.
func TestWhatIsNotServed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(extra string) *config.Config {
		t.Helper()
		file := filepath.Join(dir, "zoo.cfg")
		text := "dataDir=" + dir + "\nclientPort=0\ninitLimit=5\nsyncLimit=2\n" + extra
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	ensemble := "server.1=h1:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n"
	log := slog.New(slog.DiscardHandler)
	if _, err := serverOptions(load(ensemble), log); err != nil {
		t.Errorf("an ensemble: %v", err)
	}
	if got := unserved(load("audit.enable=true\n")); len(got) != 1 {
		t.Errorf("audit.enable=true: warnings %q", got)
	}
	if got := unserved(load("")); len(got) != 0 {
		t.Errorf("nothing asked for: warnings %q", got)
	}
}

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
