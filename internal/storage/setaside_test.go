package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetAside moves a directory's data aside, also in two goes as after a crash, and
// leaves what isn't its own.
func TestSetAside(t *testing.T) {
	for _, two := range []bool{false, true} {
		data := t.TempDir()
		log := data
		if two {
			log = t.TempDir()
		}
		d, err := Open(Options{Dir: data, LogDir: log, ClusterID: 7})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIdentity(OS{}, data, log); err != nil {
			t.Fatal(err)
		}
		// A crash after the first file.
		to := filepath.Join(log, asidePrefix+"x")
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, asideMark), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if two {
			to := filepath.Join(data, asidePrefix+"x")
			if err := errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, asideMark), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		segments, _ := filepath.Glob(filepath.Join(log, "*"+segmentSuffix))
		if len(segments) == 0 {
			t.Fatal("no segment")
		}
		if err := os.Rename(segments[0], filepath.Join(to, filepath.Base(segments[0]))); err != nil {
			t.Fatal(err)
		}
		if err := FinishSetAside(data, log); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIdentity(OS{}, data, log); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory isn't new: %v", err)
		}
		if _, err := os.Stat(filepath.Join(data, "myid")); err != nil {
			t.Error(err)
		}
		for _, name := range []string{identityName, filepath.Base(segments[0])} {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(to, asideMark)); err == nil {
			t.Error("the mark is still there")
		}
		if err := SetAside(data, log, "y"); err != nil {
			t.Fatal(err)
		}
		if n, err := Asides(data); err != nil || n != 2 {
			t.Errorf("%d folders, %v", n, err)
		}
	}
}

// TestSetAsideMarkedInOneDirectory: the machine stops when the data directory has its mark
// and the log directory has none yet. All that is in both moves at the next start, also where
// the paths have letters that mean something in patterns.
func TestSetAsideMarkedInOneDirectory(t *testing.T) {
	t.Parallel()
	data, log := filepath.Join(t.TempDir(), "data[1]"), filepath.Join(t.TempDir(), "log*")
	d, err := Open(Options{Dir: data, LogDir: log, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(data, asidePrefix+"x")
	if err := errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, asideMark), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := FinishSetAside(data, log); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadIdentity(OS{}, data, log); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directories aren't new: %v", err)
	}
	for _, dir := range []string{data, log} {
		moved := filepath.Join(dir, asidePrefix+"x")
		if _, err := os.Stat(filepath.Join(moved, identityName)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(moved, asideMark)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the mark is still there: %v", err)
		}
	}
	if n, err := Asides(data); err != nil || n != 1 {
		t.Errorf("%d folders, %v", n, err)
	}
}

// TestSetAsideEndsWithItsError: what can't be moved, marked or looked at is named, and the marks stay, so that the next
// attempt goes on.
func TestSetAsideEndsWithItsError(t *testing.T) {
	t.Parallel()
	const folder = asidePrefix + "x"
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	mark := func(dir string) {
		must(os.MkdirAll(filepath.Join(dir, folder), 0o700), os.WriteFile(filepath.Join(dir, folder, asideMark), nil, 0o600))
	}
	loop := func(dir string) {
		must(os.MkdirAll(filepath.Join(dir, folder), 0o700), os.Symlink(asideMark, filepath.Join(dir, folder, asideMark)))
	}
	for name, c := range map[string]struct {
		spoil func(data, log string)
		says  string
	}{
		"a mark that can't be looked at": {func(data, _ string) { loop(data) }, "look whether data is being set aside"},
		"one in the log's directory":     {func(_, log string) { loop(log) }, "look whether data is being set aside"},
		"the log's directory can't be marked": {func(data, log string) {
			mark(data)
			must(os.WriteFile(filepath.Join(log, folder), nil, 0o600))
		}, "set the data in"},
		"a folder in the place of a moved file": {func(data, _ string) {
			mark(data)
			must(os.WriteFile(filepath.Join(data, identityName), nil, 0o600),
				os.Mkdir(filepath.Join(data, folder, identityName), 0o700))
		}, "set the data in"},
	} {
		data, log := t.TempDir(), t.TempDir()
		c.spoil(data, log)
		if err := FinishSetAside(data, log); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(data, folder, asideMark)); err != nil && name != "one in the log's directory" {
			t.Errorf("%s: the mark is gone: %v", name, err)
		}
	}
}

// TestRemoveDataEndsWithItsError: IDENTITY stays if something else couldn't be removed.
func TestRemoveDataEndsWithItsError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	identity := filepath.Join(dir, identityName)
	if err := errors.Join(os.WriteFile(identity, nil, 0o600),
		os.MkdirAll(filepath.Join(dir, segmentName(1), "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := RemoveData(dir); err == nil || !strings.Contains(err.Error(), segmentName(1)) {
		t.Errorf("a segment that can't be removed: %v", err)
	}
	if _, err := os.Stat(identity); err != nil {
		t.Error(err)
	}
	if err := RemoveData(identity); err == nil || !strings.Contains(err.Error(), identity) {
		t.Errorf("a file in the place of the directory: %v", err)
	}
	if err := RemoveData(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
