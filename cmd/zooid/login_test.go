//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/scram"
)

// TestEnabledMechanisms: the key and the login file say how clients log in; a verifier is
// nobody's password.
func TestEnabledMechanisms(t *testing.T) {
	t.Parallel()
	verifier, err := scram.Verifier("ann", "pencil", []byte("salt"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jaas.conf")
	text := `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="secret" user_ann="` + verifier + `"; };`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(more string) (*config.Config, error) {
		zoo := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(zoo, []byte("clientPort=0\ndataDir="+t.TempDir()+"\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(zoo, []string{"java.security.auth.login.config=" + file})
	}
	scramFirst, digestFirst := []byte("n,,n=ann,r=abc"), []byte{}
	for more, takes := range map[string][2]bool{
		"": {true, true},
		"sasl.enabled.mechanisms=SCRAM-SHA-256\n":            {true, false},
		"sasl.enabled.mechanisms=DIGEST-MD5\n":               {false, true},
		"sasl.enabled.mechanisms=DIGEST-MD5,SCRAM-SHA-256\n": {true, true},
	} {
		cfg, err := load(more)
		if err != nil {
			t.Fatal(err)
		}
		l, err := loginMechanism(&cfg.Auth)
		if err != nil || l.mechanism.Begins(scramFirst) != takes[0] || l.mechanism.Begins(digestFirst) != takes[1] {
			t.Errorf("%q: %v", more, err)
		}
	}
	if _, err := load("sasl.enabled.mechanisms=PLAIN\n"); err == nil || !strings.Contains(err.Error(), "PLAIN") {
		t.Errorf("an unknown mechanism: %v", err)
	}
	known := passwords(map[string]string{"bob": "secret", "ann": verifier})
	if len(known) != 1 || known["bob"] != "secret" {
		t.Errorf("users of DIGEST-MD5: %d", len(known))
	}
}

// TestTwoLoginModules: a Kerberos module without a keytab ends the start only where Java's login would fail, too.
func TestTwoLoginModules(t *testing.T) {
	t.Parallel()
	const digest = `org.apache.zookeeper.server.auth.DigestLoginModule %s user_bob="secret";`
	krb := func(flag string) string {
		return `com.sun.security.auth.module.Krb5LoginModule ` + flag + ` useKeyTab=true keyTab="/nowhere";`
	}
	for section, serves := range map[string]bool{
		strings.Replace(digest, "%s", "required", 1) + krb("optional"):   true,
		krb("optional") + strings.Replace(digest, "%s", "required", 1):   true,
		krb("sufficient") + strings.Replace(digest, "%s", "optional", 1): true,
		strings.Replace(digest, "%s", "sufficient", 1) + krb("required"): true, // which isn't asked
		krb("required") + strings.Replace(digest, "%s", "sufficient", 1): false,
		strings.Replace(digest, "%s", "required", 1) + krb("required"):   false,
		strings.Replace(digest, "%s", "required", 1) + krb("requisite"):  false,
		krb("optional"): false, // no login has succeeded then
	} {
		file := filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(file, []byte("Server { "+section+" };"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := loginMechanism(&config.Auth{
			LoginConfig: file, SASLSection: "Server", SASLMechanisms: []string{"DIGEST-MD5", "SCRAM-SHA-256", "GSSAPI"},
		})
		if (err == nil) != serves {
			t.Errorf("%s: %v", section, err)
		}
		const ticket = "\x60" // the first byte of a login by GSSAPI
		if err == nil && (!l.mechanism.Begins(nil) || l.mechanism.Begins([]byte(ticket)) || l.secrets["bob"] != "secret" ||
			l.note == "") {
			t.Errorf("%s: %+v", section, l)
		}
	}
}
