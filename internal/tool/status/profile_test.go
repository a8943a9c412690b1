package status

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersOfProfile: without a file the profile says whom to ask, then the environment.
func TestServersOfProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profiles")
	if err := os.WriteFile(file, []byte("one.server=127.0.0.1:1/app\nbad.tls.ca=missing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZOOID_CONFIG", file)
	t.Setenv("ZOOID_SERVER", "127.0.0.1:2")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "127.0.0.1:2"}, {[]string{"-profile", "one"}, "127.0.0.1:1"}, {[]string{"-profile", "one", "127.0.0.1:3"},
			"127.0.0.1:3"},
		{[]string{"-profile", "two"}, "has no profile two"}, {[]string{"-profile", "bad"}, "missing"},
	} {
		var out bytes.Buffer
		if code := Main(c.args, &out, &out); code != exitUnknown || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: %d, %s; want %q", c.args, code, &out, c.says)
		}
	}
}

// TestIsNew: a directory is new if it can be read and has nothing of a server's data.
func TestIsNew(t *testing.T) {
	dir := t.TempDir()
	if !isNew(dir) || !isNew(filepath.Join(dir, "none")) {
		t.Error("an empty directory, or none, isn't new")
	}
	for _, name := range []string{"myid", "admin.token", "IDENTITY", "1.log", "1.snap"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if want := name == "myid" || name == "admin.token"; isNew(dir) != want {
			t.Errorf("with %s: new is %v", name, !want)
		}
	}
	if isNew(filepath.Join(dir, "x\x00")) {
		t.Error("a directory that can't be read is new")
	}
}
