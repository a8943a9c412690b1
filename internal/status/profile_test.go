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
