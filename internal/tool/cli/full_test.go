//go:build linux

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// full returns the device on which nothing can be written.
func full(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("there is no /dev/full: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestFullDisk runs commands whose results can't be written: they fail, and say so.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	at := []string{"-server", startZooid(t)}
	for _, c := range []struct {
		words []string
		input string
	}{
		{[]string{"ls", "/"}, ""}, {[]string{"get", "-s", "/"}, ""}, {[]string{"ls", "-R", "/"}, ""},
		{[]string{"-o", "json", "stat", "/"}, ""}, {[]string{"-o", "json", "export", "/zookeeper"}, ""},
		{[]string{"export", "/zookeeper"}, ""}, {[]string{"export", "/zookeeper", "/dev/full"}, ""},
		{[]string{"export", "-format", "tar", "/zookeeper", "/dev/full"}, ""},
		{[]string{"tree"}, ""}, {[]string{"version"}, ""}, {[]string{"top", "-n", "1"}, ""}, {[]string{"help"}, ""},
		{[]string{"-h"}, ""},
		{nil, "ls /"}, {nil, "ls /\nquit\n"},
	} {
		var errs bytes.Buffer
		streams := Streams{In: strings.NewReader(c.input), Out: full(t), Err: &errs}
		code := Main("cli", append(at[:2:2], c.words...), streams, "TEST")
		if code == 0 || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%q with %q: exit code %d, %q", c.words, c.input, code, errs.String())
		}
	}
}

// TestExportTarget writes to files, links, devices and pipes.
func TestExportTarget(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	v.must(t, "create", "/app", "x")
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	whole := func(name string) {
		t.Helper()
		if out := v.run(t, "import -format json -dry-run "+name); v.s.exit != 0 {
			t.Errorf("%s: %s", name, out)
		}
	}
	v.must(t, "export", "/app", path("new.json"))
	whole(path("new.json"))

	// A link is followed, and stays.
	if err := os.Symlink("new.json", path("link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("new.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v.must(t, "export", "/app", path("link.json"))
	whole(path("new.json"))
	if to, err := os.Readlink(path("link.json")); err != nil || to != "new.json" {
		t.Errorf("the link is now %q, %v", to, err)
	}
	if err := os.Symlink("nothing.json", path("dangling.json")); err != nil {
		t.Fatal(err)
	}
	if out := v.run(t, "export /app "+path("dangling.json")); v.s.exit == 0 ||
		!strings.Contains(out, "is a link to nothing") {
		t.Errorf("a link to nothing: %s", out)
	}

	// What isn't a file is written to, and not replaced.
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan []byte)
	go func() {
		text, _ := os.ReadFile(path("pipe"))
		said <- text
	}()
	v.must(t, "export", "/app", path("pipe"))
	if text := <-said; !bytes.Contains(text, []byte(`"end":{"znodes":1`)) {
		t.Errorf("the pipe said %q", text)
	}
	if st, err := os.Lstat(path("pipe")); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe was replaced: %v, %v", st.Mode(), err)
	}
	v.must(t, "export", "/app", "/dev/null")
	if st, err := os.Lstat("/dev/null"); err != nil || st.Mode()&os.ModeDevice == 0 {
		t.Fatalf("/dev/null was replaced: %v, %v", st.Mode(), err)
	}
	if out := v.run(t, "export /app "+folder); v.s.exit == 0 {
		t.Errorf("a folder: %s", out)
	}

	// A planted or stale temporary file isn't touched, and told.
	if err := os.WriteFile(path("new.json.part"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("new.json.123.part"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := v.must(t, "export", "/app", path("new.json")); !strings.Contains(out,
		"new.json.123.part belongs to an export") {
		t.Errorf("nothing was said of a temporary file: %s", out)
	}
	for _, name := range []string{"new.json.part", "new.json.123.part"} {
		if text, err := os.ReadFile(path(name)); string(text) != "mine" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}

	// One that fails leaves the old file, and none of its own.
	if out := v.run(t, "export /none "+path("new.json")); v.s.exit == 0 {
		t.Errorf("export of nothing: %s", out)
	}
	whole(path("new.json"))
	left, err := filepath.Glob(path("*.part"))
	if err != nil || len(left) != 2 {
		t.Errorf("left: %q, %v", left, err)
	}
}
