package follow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/zk"
)

// contents returns the files below a directory, by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func same(a, b map[string]string) bool {
	for name, text := range a {
		if other, ok := b[name]; !ok || text != other {
			return false
		}
	}
	return len(a) == len(b)
}

// place puts a file into a directory.
func place(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// copyOf returns a directory with a copy of what a leader has, which no follower holds.
func copyOf(t *testing.T, l *leader) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := Open(l.options(dir))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	until(t, f, "the leader", reached(l.state.Zxid))
	l.create("/logged before", "x", zk.OpenACL())
	until(t, f, "a write", reached(l.create("/logged", "x", zk.OpenACL())))
	stop()
	return dir
}

// unmark makes a copy look like one of an earlier version.
func unmark(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, proof.CopyMarkName)); err != nil {
		t.Fatal(err)
	}
}

// TestForeignDirectory: nothing is written to a directory that isn't Zooid's, and the message says what was found.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  func(dir string)
		adopt bool
		says  string
	}{
		"an Apache server's": {func(dir string) {
			place(t, dir, "myid", "1")
			place(t, dir, "version-2/snapshot.0", "x")
			place(t, dir, "version-2/log.1", "x")
		}, false, "files of an Apache ZooKeeper server: myid, version-2"},
		"an Apache server's, after an earlier version was run on it": {func(dir string) {
			place(t, dir, "myid", "1")
			place(t, dir, "follow.lock", "")
			place(t, dir, "version-2/snapshot.0", "x")
		}, true, "myid doesn't belong to a copy"},
		"an Apache server's dataLogDir": {func(dir string) {
			place(t, dir, "follow.lock", "")
			place(t, dir, "version-2/log.1", "x")
		}, true, "no snapshot"},
		"an Apache server's without myid": {func(dir string) {
			place(t, dir, "follow.lock", "")
			place(t, dir, "version-2/snapshot.0", "x")
			place(t, dir, "version-2/log.1", "x\x00\x00")
		}, true, "ends with zeros"},
		"a Zooid server's": {func(dir string) { place(t, dir, "IDENTITY", "x") }, false, "data directory of a Zooid server"},
		"somebody's":       {func(dir string) { place(t, dir, "letter", "x") }, false, "another program: letter"},
		"an earlier copy": {func(dir string) {
			place(t, dir, "version-2/x", "")
			place(t, dir, "follow.lock", "")
		}, false, "-adopt"},
		"a mark of another": {func(dir string) { place(t, dir, proof.CopyMarkName, "x") }, false, "wasn't written by Zooid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLeader(t)
			o := l.options(t.TempDir())
			c.make(o.Dir)
			before := contents(t, o.Dir)
			for _, o.Look = range []bool{true, false} {
				o.Adopt = c.adopt
				if _, err := Open(o); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("look %v: %v; want %q", o.Look, err, c.says)
				}
				if after := contents(t, o.Dir); !same(before, after) {
					t.Errorf("look %v: there was %q, now %q", o.Look, before, after)
				}
			}
		})
	}
}

// TestUnwrittenMark: a directory with nothing but what is left of a mark, after kill -9 or on a full disk, counts as
// empty.
func TestUnwrittenMark(t *testing.T) {
	t.Parallel()
	o := startLeader(t).options(t.TempDir())
	place(t, o.Dir, proof.CopyMarkName+".tmp", "{")
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, f)()
}

// TestStrangersFiles: a file that another program has put into a copy is neither removed nor replaced.
func TestStrangersFiles(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	dir := copyOf(t, l)
	place(t, dir, "version-2/log.999", "Apache's")
	before := contents(t, dir)
	if _, err := Open(l.options(dir)); err == nil || !strings.Contains(err.Error(), "log.999") {
		t.Errorf("opened: %v", err)
	}
	if after := contents(t, dir); !same(before, after) {
		t.Errorf("there was %d files, now %d", len(before), len(after))
	}
	if err := os.Remove(filepath.Join(dir, "version-2/log.999")); err != nil {
		t.Fatal(err)
	}
	// It comes while the follower runs.
	f, err := Open(l.options(dir))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(files.LogPath(dir, l.state.Zxid+1))
	place(t, dir, "version-2/"+name, "Apache's")
	place(t, dir, "version-2/snapshot.fff", "Apache's")
	done := make(chan error, 1)
	go func() { done <- f.Run(t.Context()) }()
	l.create("/more", "x", zk.OpenACL())
	if err := <-done; err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%v", err)
	}
	for _, n := range []string{name, "snapshot.fff"} {
		if b, err := os.ReadFile(filepath.Join(dir, "version-2", n)); err != nil || string(b) != "Apache's" {
			t.Errorf("%s: %q, %v", n, b, err)
		}
	}
	// Nor is it removed when everything is replaced.
	k := f.keep
	if err := os.Remove(filepath.Join(dir, "version-2", name)); err != nil {
		t.Fatal(err)
	}
	k.err = nil
	if k.mine, err = proof.HoldCopy(dir, false); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.replace(l.state), k.close()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "version-2/snapshot.fff")); err != nil || string(b) != "Apache's" {
		t.Errorf("replaced: %q, %v", b, err)
	}
}

// TestAdopt: a copy of an earlier version is taken by the operator's word only, with its content.
func TestAdopt(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	dir := copyOf(t, l)
	unmark(t, dir)
	o := l.options(dir)
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "-adopt") {
		t.Fatalf("without the word: %v", err)
	}
	o.Adopt = true
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	s := until(t, f, "the leader", reached(l.create("/later", "x", zk.OpenACL())))
	stop()
	if s.Snapshots != 0 || s.Digest != l.state.Digest() {
		t.Errorf("%+v", s)
	}
	if f, err = Open(l.options(dir)); err != nil || !f.keep.mine.Mark().Adopted {
		t.Fatalf("the next start: %v", err)
	}
	f.keep.close()
}

// TestLook: a follower that only looks is up to date and changes no file, whether there is a copy or nothing.
func TestLook(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	l.create("/a", "1", zk.OpenACL())
	for _, dir := range []string{copyOf(t, l), t.TempDir(), filepath.Join(t.TempDir(), "new")} {
		before := map[string]string{}
		if _, err := os.Stat(dir); err == nil {
			before = contents(t, dir)
		}
		o := l.options(dir)
		o.Look = true
		f, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, f)
		zxid := l.create("/"+filepath.Base(filepath.Dir(dir))+filepath.Base(dir), "x", zk.OpenACL())
		if s := until(t, f, "a write", reached(zxid)); s.Digest != l.state.Digest() {
			t.Errorf("%+v", s)
		}
		stop()
		after := map[string]string{}
		if _, err := os.Stat(dir); err == nil {
			after = contents(t, dir)
		}
		if !same(before, after) {
			t.Errorf("%s had %d files, and has %d or other ones", dir, len(before), len(after))
		}
	}
	held := copyOf(t, l)
	f, err := Open(l.options(held))
	if err != nil {
		t.Fatal(err)
	}
	defer f.keep.close()
	o := l.options(held)
	o.Look = true
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "another process") ||
		strings.Contains(err.Error(), "temporarily") {
		t.Errorf("while another one keeps it: %v", err)
	}
}

// TestReplacedAfterACrash: a power failure at any point of replacing a copy leaves the earlier one or the new one
// whole, although the new one's zxid is the lower one.
func TestReplacedAfterACrash(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	l.create("/a", "1", zk.OpenACL())
	other := startLeader(t)
	other.create("/of another history", "x", zk.OpenACL())
	for _, c := range []string{"noted", "renamed", "a log removed", "a snapshot removed"} {
		dir := copyOf(t, l)
		k, _, err := openKeeper(&Options{Dir: dir, Say: func(text string) { t.Error(text) }})
		if err != nil {
			t.Fatal(err)
		}
		var snapshot strings.Builder
		walk := other.state.Walk()
		for more := true; more; {
			more = walk.Step()
			walk.Flush(&snapshot)
		}
		snapshot.Write(walk.Finish())
		name := filepath.Base(files.SnapshotPath(dir, walk.Zxid))
		place(t, dir, "version-2/"+unfinished, snapshot.String())
		if err := errors.Join(k.mine.Own(inVersion2(name)), k.mine.Install(inVersion2(name))); err != nil {
			t.Fatal(err)
		}
		if c != "noted" {
			if err := files.Rename(dir, unfinished, name); err != nil {
				t.Fatal(err)
			}
		}
		for pattern, step := range map[string]string{"log.*": "a log removed", "snapshot.*": "a snapshot removed"} {
			found, _ := filepath.Glob(filepath.Join(dir, "version-2", pattern))
			for _, f := range found {
				if c == step && filepath.Base(f) != name {
					os.Remove(f)
				}
			}
		}
		if err := k.close(); err != nil {
			t.Fatal(err)
		}
		k, state, err := openKeeper(&Options{Dir: dir, Say: func(text string) { t.Error(c, text) }})
		if err != nil {
			t.Fatal(err)
		}
		if state.Digest() != other.state.Digest() {
			t.Errorf("%s: the digest is %#x, want %#x", c, state.Digest(), other.state.Digest())
		}
		if found := contents(t, filepath.Join(dir, "version-2")); len(found) != 3 { // and the epochs
			t.Errorf("%s: %d files are left", c, len(found))
		}
		k.close()
	}
}
