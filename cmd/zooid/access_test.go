//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/authprovider/key"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/jute"
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
	o, err := configured(t,
		"authProvider.1="+key.Class+"\nauthProvider.2="+key.Class+"\nenforce.auth.enabled=true\nenforce.auth.schemes=key\n")
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

// TestExternalScheme: a script of a few lines judges the credentials of a scheme; one that
// isn't there ends the start.
func TestExternalScheme(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "judge")
	const text = `#!/bin/sh
while read -r question; do
	request=$(echo "$question" | sed 's/.*"request":\([0-9]*\).*/\1/')
	case $question in
	*'"scheme":"corp","credential":"YW5uOnNlY3JldA=="'*) echo "{\"request\":$request,\"ids\":[\"ann\",\"staff\"]}" ;;
	*) echo "{\"request\":$request,\"refused\":\"wrong password\"}" ;;
	esac
done
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	o, err := configured(t, "authProvider.corp=exec:"+script+"\nenforce.auth.enabled=true\nenforce.auth.schemes=corp\n")
	if err != nil {
		t.Fatal(err)
	}
	r, err := auth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	address := jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	proof, err := r.Authenticate(nil, address, &jute.AuthPacket{Scheme: "corp", Auth: []byte("ann:secret")}, nil)
	if err != nil || len(proof.IDs) != 2 || proof.IDs[0] != (jute.ID{Scheme: "corp", ID: "ann"}) {
		t.Errorf("%+v, %v", proof, err)
	}
	if _, err = r.Authenticate(nil, address, &jute.AuthPacket{Scheme: "corp", Auth: []byte("ann:guess")}, nil); !errors.Is(
		err, auth.ErrFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := configured(t, "authProvider.corp=exec:"+script+".missing\n"); runbook.Code(err) != "ZD-1228" {
		t.Errorf("a program that isn't there: %v", err)
	}
}
