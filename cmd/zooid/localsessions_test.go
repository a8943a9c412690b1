package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// TestLocalSessionKeys: the keys reach the servers of an ensemble. A server alone
// passes them over, as Apache does.
func TestLocalSessionKeys(t *testing.T) {
	t.Parallel()
	const ensemble = "initLimit=5\nsyncLimit=2\nserver.1=h1:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n"
	for _, c := range []struct {
		text             string
		local, upgrading bool
	}{
		{ensemble, false, false},
		{ensemble + "localSessionsEnabled=true\n", true, false},
		{ensemble + "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n", true, true},
		{"localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n", false, false},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		for name, text := range map[string]string{"myid": "1\n", "zoo.cfg": "dataDir=" + dir + "\nclientPort=0\n" + c.text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := serverOptions(cfg, slog.New(slog.DiscardHandler))
		if err != nil || o.LocalSessions != c.local || o.LocalSessionsUpgrading != c.upgrading {
			t.Errorf("%q: local %t, upgrading %t, %v", c.text, o.LocalSessions, o.LocalSessionsUpgrading, err)
		}
	}
}
