package zk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// testLogin is what DIGEST-MD5 must do at any server with these users.
var loginUsers = map[string]string{"bob": `se,cr"et`, "jérôme": "päss"}

func testLogin(t *testing.T, address string, cut func()) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for user, password := range loginUsers {
		c, err := zk.Open(ctx, address, zk.Options{SASL: zk.DigestMD5(user, password)})
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		defer c.Close()
		path, err := c.Create(ctx, "/mine-", []byte("x"), zk.ModeEphemeralSequential, zk.CreatorACL())
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		if acl, _, err := c.GetACL(ctx, path); err != nil || acl[0].ID != (zk.ID{Scheme: "sasl", ID: user}) {
			t.Errorf("%s: ACL %v, %v", user, acl, err)
		}
		id := c.Session().ID
		cut()
		// On the next connection the first read is that of the user again.
		if data, _, err := c.Get(ctx, path); err != nil || string(data) != "x" || c.Session().ID != id {
			t.Errorf("%s: after a lost connection: %q, %v, session 0x%x, was 0x%x", user, data, err, c.Session().ID, id)
		}
	}
	for _, wrong := range []zk.SASLMechanism{zk.DigestMD5("bob", "guess"), zk.DigestMD5("eve", "x")} {
		if _, err := zk.Open(ctx, address, zk.Options{SASL: wrong}); !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestDigestMD5(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{Users: loginUsers})
	testLogin(t, e.Connect(), e.Cut)
}

// A server without logins is one that the client doesn't use.
func TestDigestMD5Unknown(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	if _, err := zk.Open(t.Context(), e.Connect(), zk.Options{SASL: zk.DigestMD5("bob", "x")}); !errors.Is(err,
		zk.ErrAuthFailed) {
		t.Errorf("%v", err)
	}
}

func TestDigestMD5Apache(t *testing.T) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs Apache's server: set ZOOID_COMPAT=1")
	}
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	text := "Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n user_bob=\"se,cr\\\"et\"\n user_jérôme=\"päss\";\n};\n"
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address, stop, err := startApache("-Dfile.encoding=UTF-8",
		"-Dzookeeper.fips-mode=false", "-Djava.security.auth.login.config="+jaas,
		"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p := zktest.NewProxy(t, func() string { return address })
	testLogin(t, p.Address(), p.Cut)
}
