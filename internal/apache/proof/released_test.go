package proof

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

func put(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestHold: a held directory can't be held again, by the lock of a server neither, until it is released.
func TestHold(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	held, err := Hold(dir, dir+"/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(dir); err == nil || !strings.Contains(err.Error(), "Stop the Zooid server") {
		t.Errorf("held twice: %v", err)
	}
	if lock, err := (storage.OS{}).Lock(dir); err == nil {
		t.Errorf("a server takes it: %v", lock)
	}
	if err := errors.Join(held.Release(), held.Release()); err != nil {
		t.Error(err)
	}
	again, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// TestMark: a mark is put where there is nothing of Zooid's only; what is dropped is Zooid's files, in both
// directories, and nothing else; what is released isn't dropped, unless
// it is recalled.
func TestMark(t *testing.T) {
	t.Parallel()
	dir, log, try := t.TempDir(), t.TempDir(), NewTry()
	m := &Mark{Try: try, At: time.Now(), LogDir: log}
	put(t, filepath.Join(log, "0000000000000001.log"))
	if err := m.Put(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("beside a log: %v", err)
	}
	if found, err := FindMark(dir); found != nil || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	os.Remove(filepath.Join(log, "0000000000000001.log"))
	put(t, filepath.Join(dir, "myid"))
	put(t, filepath.Join(log, "version-2"))
	if err := m.Put(dir); err != nil {
		t.Fatal(err)
	}
	if err := Release(dir, try); err == nil || !strings.Contains(err.Error(), "hasn't been written yet") {
		t.Errorf("a release before the data: %v", err)
	}
	for _, path := range []string{dir + "/IDENTITY", log + "/IDENTITY", dir + "/0000000000000001.snap",
		log + "/0000000000000001.log"} {
		put(t, path)
	}
	if err := os.MkdirAll(filepath.Join(dir, "seed-unfinished", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if dropped, err := Drop(dir); !dropped || err != nil {
		t.Errorf("%v, %v", dropped, err)
	}
	if left := names(t, dir); !slices.Equal(left, []string{"myid"}) {
		t.Errorf("left: %v", left)
	}
	if left := names(t, log); !slices.Equal(left, []string{"version-2"}) {
		t.Errorf("left beside the log: %v", left)
	}
	if err := m.Put(dir); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/IDENTITY")
	if err := Release(dir, NewTry()); err == nil {
		t.Error("another try releases it")
	}
	if err := errors.Join(Release(dir, try), Release(dir, try)); err != nil {
		t.Error(err)
	}
	if dropped, err := Drop(dir); dropped || err != nil {
		t.Errorf("dropped after the release: %v, %v", dropped, err)
	}
	if done, err := Released(dir, try); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if err := Recall(dir, NewTry()); err == nil {
		t.Error("another try recalls it")
	}
	if err := Recall(dir, try); err != nil {
		t.Error(err)
	}
	if dropped, err := Drop(dir); !dropped || err != nil {
		t.Errorf("dropped after the recall: %v, %v", dropped, err)
	}
}

// TestJournal: records are read again; half a line at the end is a step that didn't begin; other damage is an error.
func TestJournal(t *testing.T) {
	t.Parallel()
	path, try := filepath.Join(t.TempDir(), "journal"), NewTry()
	j, records, err := OpenJournal(path)
	if err != nil || len(records) != 0 {
		t.Fatalf("%+v, %v", records, err)
	}
	if again, _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v, %v", again, err)
	}
	err = errors.Join(j.Begin(try, "stop", map[string]int{"a": 1}), j.End(try, "stop"), j.Close())
	whole, readErr := os.ReadFile(path)
	if err = errors.Join(err, readErr, os.WriteFile(path, append(whole, `{"at":"2026`...), 0o600)); err != nil {
		t.Fatal(err)
	}
	j, records, err = OpenJournal(path)
	if err != nil || len(records) != 2 || records[0].Done || string(records[0].Data) != `{"a":1}` || !records[1].Done ||
		records[1].Try != try {
		t.Fatalf("%+v, %v", records, err)
	}
	if err := errors.Join(j.Begin(try, "make", nil), j.Close()); err != nil {
		t.Fatal(err)
	}
	if j, records, err = OpenJournal(path); err != nil || len(records) != 3 || records[2].Step != "make" {
		t.Errorf("after half a line: %+v, %v", records, err)
	}
	if err := errors.Join(j.Close(), os.WriteFile(path, append([]byte("?\n"), whole...), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, records, err := OpenJournal(path); err == nil {
		t.Errorf("a damaged one: %+v", records)
	}
}

// TestJournalFails: a record that isn't known to be on disk is no record, for this run and for the next one.
func TestJournalFails(t *testing.T) {
	t.Parallel()
	path, try := filepath.Join(t.TempDir(), "journal"), NewTry()
	j, _, err := OpenJournal(path)
	if err == nil {
		err = j.Begin(try, "stop", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	disk := &failingFile{File: j.f.(*os.File)}
	j.f = disk
	for _, disk.writes = range []int{1000, 7} { // the second is cut short, as on a full disk
		if err := j.Begin(try, "release", nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
		records, err := ReadJournal(path)
		if err != nil || len(records) != 1 || records[0].Step != "stop" {
			t.Errorf("%+v, %v", records, err)
		}
	}
	j.f = disk.File
	if err := errors.Join(j.End(try, "undone"), j.Close()); err != nil {
		t.Fatal(err)
	}
	if records, err := ReadJournal(path); err != nil || len(records) != 2 || records[1].Step != "undone" {
		t.Errorf("%+v, %v", records, err)
	}
}

// A failingFile takes some bytes of each write, and doesn't make them durable.
type failingFile struct {
	*os.File
	writes int
}

func (f *failingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), f.writes)])
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *failingFile) Sync() error { return syscall.ENOSPC }

// TestServes: only the server of the directory that was made serves, with all that was copied.
func TestServes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		service     Answer
		held        bool
		other, fine bool
	}{
		"it":                   {Answer{Zooid: true, Lineage: 7, Zxid: 10}, true, false, true},
		"it tells no lineage":  {Answer{Zooid: true, Zxid: 10}, true, false, true},
		"Apache":               {Answer{Version: "3.9.5", Zxid: 99}, true, true, false},
		"another Zooid server": {Answer{Zooid: true, Lineage: 8, Zxid: 99}, true, true, false},
		"an unknown one":       {Answer{Zooid: true, Zxid: 99}, false, true, false},
		"it starts":            {Answer{Zooid: true, Reasons: []string{"no leader"}}, true, false, false},
		"it has less":          {Answer{Zooid: true, Lineage: 7, Zxid: 9}, true, false, false},
	} {
		err := c.service.Serves(7, 10, func() (bool, error) { return c.held, nil })
		if (err == nil) != c.fine || errors.Is(err, ErrOther) != c.other {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnready: a directory in which an import was cut short isn't used, an empty folder of one hinders nobody.
func TestUnready(t *testing.T) {
	t.Parallel()
	for _, name := range unfinished {
		for _, log := range []bool{false, true} {
			data, logs := t.TempDir(), t.TempDir()
			folder := filepath.Join(data, name)
			if log {
				folder = filepath.Join(logs, name)
			}
			if err := Unready(data, logs); err != nil {
				t.Errorf("an empty directory: %v", err)
			}
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := Unready(data, logs); err != nil {
				t.Errorf("an empty folder %s: %v", name, err)
			}
			if err := os.WriteFile(filepath.Join(folder, "snapshot"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Unready(data, logs); err == nil || !strings.Contains(err.Error(), folder) {
				t.Errorf("a folder %s with a file: %v", name, err)
			}
		}
	}
	if err := Unready(filepath.Join(t.TempDir(), "missing"), ""); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
}
