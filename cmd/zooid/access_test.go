//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/authprovider/key"
	"github.com/zooid-project/zooid/internal/auth"
)

// configured returns the configuration that lines make, of a server alone.
func configured(t *testing.T, lines string) (auth.Options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte("clientPort=0\ndataDir="+t.TempDir()+"\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, code := serverConfig([]string{file}, os.Stdout, os.Stderr)
	if code != 0 || cfg == nil {
		t.Fatalf("%q is refused", lines)
	}
	return authOptions(cfg)
}

// TestProviderByName: authProvider.N chooses a provider that is compiled in, once.
func TestProviderByName(t *testing.T) {
	t.Parallel()
	o, err := configured(t, "authProvider.1="+key.Class+"\nauthProvider.2="+key.Class+"\nenforce.auth.enabled=true\nenforce.auth.schemes=key\n")
	if err != nil || len(o.Providers) != 1 || o.Providers[0].Scheme() != "key" {
		t.Fatalf("%v, %v", o.Providers, err)
	}
	if r, err := auth.New(o); err != nil || !r.Schemes().Has("key") {
		t.Errorf("%v, %v", r, err)
	}
	o, err = configured(t, "authProvider.1="+key.Class+"\nenforce.auth.enabled=true\nenforce.auth.schemes=kay\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.New(o); err == nil {
		t.Error("a scheme that nobody serves is enforced")
	}
}
