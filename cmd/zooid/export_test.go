package main

import (
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/auth"
)

// exported runs zooid export into a new directory.
func exported(t *testing.T, args ...string) (to, said string, code int) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "apache")
	var out bytes.Buffer
	code = mover.Run("export", append([]string{"-to", to}, args...), &out, &out)
	if code != 0 {
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("export %q failed, and %s is there: %s", args, to, out.String())
		}
	}
	return to, out.String(), code
}

// apacheFiles returns what files of a directory for Apache hold, by name.
func apacheFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(names) != 3 {
		t.Fatalf("want a snapshot and two epochs: %q, %v", names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(name)] = string(b)
	}
	return found
}

// TestExportOfRunningServer: the admin server's snapshot, as a file, as one that gzip has compressed, and over HTTP and
// HTTPS, leads to the very files that the data directory leads to, epochs among them.
func TestExportOfRunningServer(t *testing.T) {
	clients := port(t)
	stores := filepath.Join("..", "..", "internal", "keystore", "testdata")
	super, err := auth.Digest("SHA1", "super:secret")
	if err != nil {
		t.Fatal(err)
	}
	p := startServer(t, "clientPort="+clients,
		"maxSessionTimeout=600000", // the session must not end between two exports
		"admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0",
		"DigestAuthenticationProvider.superDigest="+super,
		"admin.portUnification=true", "ssl.quorum.keyStore.location="+filepath.Join(stores, "server.jks"),
		"ssl.quorum.keyStore.password=apassword",
		"ssl.quorum.trustStore.location="+filepath.Join(stores, "trust.jks"), "ssl.quorum.trustStore.password=apassword")
	createZnodes(t, "127.0.0.1:"+clients, 40)
	_, snapshot := p.adminCall("GET", "snapshot", "")
	dir := t.TempDir()
	plain, zipped := filepath.Join(dir, "app.snap"), filepath.Join(dir, "app.snap.gz")
	var squeezed bytes.Buffer
	w := gzip.NewWriter(&squeezed)
	w.Write([]byte(snapshot))
	w.Close()
	for file, b := range map[string][]byte{plain: []byte(snapshot), zipped: squeezed.Bytes()} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to, said, code := exported(t, filepath.Join(filepath.Dir(p.file), "data"))
	if code != 0 {
		t.Fatal(said)
	}
	want := apacheFiles(t, to)
	state, report, err := files.Load(files.Options{Dir: to})
	if err != nil || report.Compared != 1 || state.Len() != 44 || len(state.Sessions) != 1 ||
		want["currentEpoch"] == "0" || want["acceptedEpoch"] != want["currentEpoch"] {
		t.Fatalf("%v, %+v, %d znodes, %d sessions, epochs %q %q", err, report, state.Len(), len(state.Sessions),
			want["currentEpoch"], want["acceptedEpoch"])
	}
	secure := []string{"-tls-ca", filepath.Join(stores, "trust.pem")}
	for name, args := range map[string][]string{
		"file": {plain}, "gzip": {zipped}, "path": {"-auth", "digest:super:secret", "http://" + p.admin + "/commands/"},
		"identity": {"-auth", "digest:super:secret", "http://" + p.admin},
		"token":    {"-auth", strings.Replace(p.own(), " ", ":", 1), "http://" + p.admin},
		"TLS":      append(secure, "-auth", "digest:super:secret", "https://"+p.admin),
		"certificate": append(secure, "-tls-cert", filepath.Join(stores, "client.pem"),
			"-auth", "digest:super:secret", "https://"+p.admin+"/commands/snapshot"),
	} {
		to, said, code := exported(t, args...)
		if code != 0 {
			t.Errorf("%s: %d, %s", name, code, said)
			continue
		}
		if now := apacheFiles(t, to); !maps.Equal(now, want) {
			t.Errorf("%s leads to other files than the data directory: %q", name, said)
		}
		if left, _ := os.ReadDir(to); len(left) != 1 {
			t.Errorf("%s left more than version-2: %v", name, left)
		}
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		// identities of anybody's, which / admits
		"nobody":           {[]string{"http://" + p.admin}, 1, "403, Not authorized: the ACL of / admits everybody"},
		"a wrong password": {[]string{"-auth", "digest:super:wrong", "http://" + p.admin}, 1, "403, Not authorized"},
		"another scheme": {
			[]string{"-auth", "nosuch:secret", "http://" + p.admin}, 1,
			"401, Not authenticated. The server doesn't accept these credentials",
		},
		"another page":     {[]string{"http://" + p.admin + "/other/path"}, 1, "404"},
		"a stranger's TLS": {[]string{"https://" + p.admin}, 1, "name the authority's file with -tls-ca"},
		"plain, with TLS":  {append(secure, "http://"+p.admin), 1, "want https://"},
	} {
		_, said, code := exported(t, c.args...)
		if code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "secret") {
			t.Errorf("%s: exit %d, %q; want %d and %q", name, code, said, c.code, c.says)
		}
	}
	// The root is closed: only super is admitted then.
	var out bytes.Buffer
	if code := run([]string{"cli", "-server", "127.0.0.1:" + clients, "setAcl", "/", "world:anyone:r"}, &out,
		&out); code != 0 {
		t.Fatal(out.String())
	}
	if _, said, code := exported(t, "-auth", "digest:super:wrong", "http://"+p.admin); code != 1 ||
		!strings.Contains(said, "403, Not authorized. Give an identity that has all permissions") {
		t.Errorf("a wrong password: %d, %s", code, said)
	}
	if _, said, code := exported(t, "-auth", "digest:super:secret", "http://"+p.admin); code != 0 ||
		!regexp.MustCompile(`exported 44 znodes and \d sessions`).MatchString(said) {
		t.Errorf("the right password: %d, %s", code, said)
	}
	if _, said, code := exported(t, "-auth", "digest:super:secret", "http://127.0.0.1:"+clients); code != 1 {
		t.Errorf("a client port: %d, %s", code, said)
	}
}
