//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
)

// TestReloadedIdentities: a reload puts the superuser and the users of the login file in force, for who logs in from
// then on, and with auth.recheckSeconds for who is connected. A login file that can't be read changes nothing.
func TestReloadedIdentities(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	digest := func(credential string) string {
		t.Helper()
		id, err := auth.Digest("", credential)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const login = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="a" user_bob="%"; };`
	zoo := func(super string) string {
		return write("zoo.cfg", "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir="+filepath.Join(dir, "data")+
			"\nauthProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nauth.recheckSeconds=86400\n"+
			"DigestAuthenticationProvider.superDigest="+digest(super)+"\n")
	}
	args := []string{
		zoo("super:test"), "-Djava.security.auth.login.config=" + write("jaas", strings.Replace(login, "%", "b", 1)),
	}
	var why bytes.Buffer
	cfg, _ := serverConfig(args, io.Discard, &why)
	if cfg == nil {
		t.Fatal(why.String())
	}
	log := slog.New(slog.DiscardHandler)
	opt, err := serverOptions(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	again := newReloader(args, cfg, &opt, log)
	s, err := server.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	again.serve(s)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(o zk.Options) *zk.Client {
		t.Helper()
		c, err := zk.Open(ctx, s.Addrs()[0].String(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ann, bob := connect(zk.Options{SASL: zk.DigestMD5("ann", "a")}), connect(zk.Options{SASL: zk.DigestMD5("bob", "b")})
	super := connect(zk.Options{Auth: []zk.Auth{zk.DigestAuth("super", "test")}})
	if _, err := super.Create(ctx, "/secret", nil, zk.ModePersistent,
		[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "nobody:x"}}}); err != nil {
		t.Fatal(err)
	}
	reads := func(c *zk.Client) error { _, _, err := c.Get(ctx, "/secret"); return err }
	if err := reads(super); err != nil {
		t.Fatal(err)
	}

	write("jaas", "Server {")
	if _, err := again.reload(); err == nil || !strings.Contains(err.Error(), "login file") {
		t.Errorf("a login file that can't be read: %v", err)
	}
	if err := reads(super); err != nil {
		t.Errorf("after a reload that changes nothing: %v", err)
	}
	write("jaas", strings.Replace(login, "%", "changed", 1))
	zoo("admin:test")
	done, err := again.reload()
	want := []string{"DigestAuthenticationProvider.superDigest", "users of the login file"}
	if err != nil || !slices.Equal(done.InForce, want) || len(done.NeedRestart) > 0 {
		t.Errorf("reload: %+v, %v", done, err)
	}
	// Their clients come back: bob with a password that isn't taken, super as who has no rights.
	for reads(super) == nil || !errors.Is(reads(bob), zk.ErrAuthFailed) {
		if ctx.Err() != nil {
			t.Fatalf("the former superuser: %v; bob: %v", reads(super), reads(bob))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := reads(super); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("the former superuser: %v", err)
	}
	if err := reads(ann); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("ann, who hasn't changed: %v", err)
	}
	again.configure(&opt)
	if opt.Auth.SuperDigest != digest("admin:test") {
		t.Errorf("a server that opens now has the superuser %s", opt.Auth.SuperDigest)
	}
	if err := reads(
		connect(zk.Options{
			Auth: []zk.Auth{zk.DigestAuth("admin", "test")}, SASL: zk.DigestMD5("bob", "changed"),
		})); err != nil {
		t.Errorf("the new superuser: %v", err)
	}
}
