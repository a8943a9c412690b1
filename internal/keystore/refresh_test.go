package keystore

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
)

// TestRefresh: a port that doesn't follow its stores reads them again when told to, and
// keeps those read before if that fails.
func TestRefresh(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.pem")
	put := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	put(read("server.pem"))
	p, err := NewPort(Options{Keys: Store{Location: file, Password: "apassword"}, ClientAuth: "none"})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() []byte {
		t.Helper()
		cfg, err := p.Config().GetConfigForClient(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Certificates[0].Certificate[0]
	}
	first := shown()
	put([]byte("garbage"))
	if err := p.Refresh(); err == nil {
		t.Error("garbage is taken")
	}
	if !bytes.Equal(shown(), first) {
		t.Error("after garbage it shows another certificate")
	}
	put(read("client.pem"))
	if err := p.Refresh(); err != nil {
		t.Error(err)
	}
	if bytes.Equal(shown(), first) {
		t.Error("after Refresh it shows the old certificate")
	}
}
