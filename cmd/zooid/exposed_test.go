//go:build unix

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExposedSecrets: a server says at its start that everybody can read the secrets in its configuration.
func TestExposedSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		mode fs.FileMode
		told bool
	}{
		{"quorum.secret=planted-secret-of-twenty", 0o644, true},
		{"DigestAuthenticationProvider.superDigest=super:planted", 0o644, true},
		{"ssl.keyStore.password=planted", 0o604, true},
		{"ssl.keyStore.password=planted\r\n", 0o604, true},
		{"quorum.secret=planted-secret-of-twenty", 0o640, false},
		{"quorum.secret=planted-secret-of-twenty", 0o600, false},
		{"tickTime=2000", 0o644, false},
		{"tickTime=2000\r\n", 0o644, false},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		text := "clientPort=0\ndataDir=" + dir + "\n" + c.line
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, c.mode)); err != nil {
			t.Fatal(err)
		}
		cfg, code := serverConfig([]string{file}, os.Stdout, os.Stderr)
		if code != 0 {
			t.Fatal(code)
		}
		var said bytes.Buffer
		logRisks(cfg, slog.New(slog.NewTextHandler(&said, nil)))
		if told := strings.Contains(said.String(), "ZD-1234"); told != c.told || strings.Contains(said.String(), "planted") {
			t.Errorf("%.12q, mode %o: told is %v: %s", c.line, c.mode, told, &said)
		}
	}
}
