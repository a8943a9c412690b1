package pages

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHTMLBeside finds pages where packages, make install and archives put them, and nothing else.
func TestHTMLBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(file string) string {
		t.Helper()
		file = filepath.Join(dir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	installed, unpacked := put("usr/share/doc/zooid/html/index.html"), put("zooid-1/html/index.html")
	if err := os.MkdirAll(filepath.Join(dir, "zooid-1", "html", "limits.html"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"usr/bin/zooid": installed, "zooid-1/zooid": unpacked, "zooid-2/zooid": "",
	} {
		if at := htmlBeside(filepath.Join(dir, filepath.FromSlash(program)), "index.html"); at != want {
			t.Errorf("%s: %q, want %q", program, at, want)
		}
	}
	if at := htmlBeside(filepath.Join(dir, "zooid-1", "zooid"), "limits.html"); at != "" {
		t.Errorf("a folder is shown as a page: %s", at)
	}
}

// TestHTMLArguments: what is no page is answered by what is, and without HTML the answer says where it comes from.
func TestHTMLArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		has  string
	}{
		{[]string{"-html", "operatons"}, 2, "did you mean operations?"},
		{[]string{"-html", "../../etc/passwd"}, 2, "there is no page"},
		{[]string{"-html", "operations", "back"}, 2, "one page or code"},
		{[]string{"-html", "operations.md"}, 1, "make install"}, // this test's program has none beside it
		{[]string{"--html", "zd-2002"}, 1, "make install"},
		{[]string{"-html"}, 1, "make install"},
	} {
		var out, errs bytes.Buffer
		code := Main(c.args, &out, &errs, nil)
		if code != c.code || out.Len() > 0 || !strings.Contains(errs.String(), c.has) {
			t.Errorf("docs %v: exit code %d, want %d; %s%s", c.args, code, c.code, &out, &errs)
		}
	}
}
