package external

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
)

// TestReplaceablePrograms: a program that other users may change or replace isn't started, whether by its own
// permissions or by those of a folder or link on the way to it.
func TestReplaceablePrograms(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such permissions on Windows")
	}
	chmod := func(name string, mode os.FileMode) func(string) error {
		return func(dir string) error { return os.Chmod(dir+"/"+name, mode) }
	}
	const other = 12_345 // a user who is neither root nor the server's
	for name, c := range map[string]struct {
		path   string
		change func(dir string) error
		ok     bool
	}{
		"as it should be":             {"lib/judge", func(string) error { return nil }, true},
		"the file":                    {"lib/judge", chmod("lib/judge", 0o770), false},
		"its folder":                  {"lib/judge", chmod("lib", 0o777), false},
		"the group's folder":          {"lib/judge", chmod("lib", 0o775), false},
		"the folder above":            {"lib/judge", chmod("", 0o777), false},
		"a folder as /tmp is one":     {"lib/judge", chmod("lib", 0o777|os.ModeSticky), true},
		"a link":                      {"link/judge", func(string) error { return nil }, true},
		"a link in an open folder":    {"open/link/judge", chmod("open", 0o777), false},
		"a way through such a folder": {"open/../lib/judge", chmod("open", 0o777), false},
		"a link through such a folder": {"through/judge",
			chmod("open", 0o777), false},
		"a chain of links":       {"loop/judge", func(string) error { return nil }, false},
		"somebody else's folder": {"lib/judge", func(dir string) error { return os.Chown(dir+"/lib", other, -1) }, false},
		"somebody else's link":   {"link/judge", func(dir string) error { return os.Lchown(dir+"/link", other, -1) }, false},
		"all of somebody's": {"lib/judge", func(dir string) error {
			return errors.Join(os.Chown(dir+"/lib", other, -1), os.Chown(dir+"/lib/judge", other, -1))
		}, true},
		"a folder": {"lib", func(string) error { return nil }, false},
	} {
		dir := filepath.Join(t.TempDir(), "here")
		err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(dir+"/lib", 0o755), os.Mkdir(dir+"/open", 0o755),
			os.WriteFile(dir+"/lib/judge", []byte("#!/bin/sh\nread line\n"), 0o755),
			os.Symlink("lib", dir+"/link"), os.Symlink(dir+"/lib", dir+"/open/link"),
			os.Symlink("open/../lib", dir+"/through"), os.Symlink("loop", dir+"/loop"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(dir); errors.Is(err, os.ErrPermission) {
			continue // only root can give files away
		} else if err != nil {
			t.Fatal(err)
		}
		p, err := New(Options{Scheme: "corp", Target: "exec:" + dir + "/" + c.path, Timeout: time.Second, Concurrency: 1})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			p.Close()
		}
	}
}

// TestLinksMax: on the way to a program there may be linksMax symbolic links, and no more.
func TestLinksMax(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/0", []byte("#!/bin/sh\nread line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for n := range linksMax + 1 {
		if err := os.Symlink(strconv.Itoa(n), filepath.Join(dir, strconv.Itoa(n+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := inspect(filepath.Join(dir, strconv.Itoa(linksMax))); err != nil {
		t.Error(err)
	}
	if err := inspect(filepath.Join(dir, strconv.Itoa(linksMax+1))); err == nil {
		t.Errorf("%d links are followed", linksMax+1)
	}
}

// TestPermissionsChangeLater: a program is inspected before each start. While others may replace it, nobody can log in,
// but no login is refused for good.
func TestPermissionsChangeLater(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such permissions on Windows")
	}
	dir := t.TempDir()
	script := `#!/bin/sh
read line
n=${line#*\"request\":}
echo "{\"request\":${n%%,*},\"ids\":[\"ann\"]}"
`
	if err := os.WriteFile(dir+"/judge", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Scheme: "corp", Target: "exec:" + dir + "/judge", Timeout: 30 * time.Second, Concurrency: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct {
		mode os.FileMode
		ok   bool
	}{{0o755, true}, {0o777, false}, {0o700, true}} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := handle(p, "ann:secret", "10.0.0.1")
		if (err == nil) != c.ok || err != nil && !errors.Is(err, authprovider.ErrUndecided) {
			t.Errorf("while the folder has the mode %o: %v", c.mode, err)
		}
	}
}

// TestRelativeProgram: a program may be named by a path from the server's folder, and is the one that is inspected.
func TestRelativeProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such permissions on Windows")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "judge"), []byte("#!/bin/sh\nread line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	p, err := newProgram([]string{"./judge"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(p.args[0]) {
		t.Errorf("%s is started, which depends on the folder", p.args[0])
	}
}
