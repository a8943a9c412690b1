package storage

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func skipForTests(index uint64) Skip {
	return Skip{
		Cluster: 7, Index: index, Term: 3, Hash: HashEntry([]byte("entry")), At: time.Unix(1e9, 0).UTC(), By: "ann",
		Why: "it\npanics \x1b",
	}
}

// TestSkips: decisions are read back as they were written, over restarts, and at most
// SkipsMax are kept.
func TestSkips(t *testing.T) {
	t.Parallel()
	dir, logDir := t.TempDir(), t.TempDir()
	o := Options{Dir: dir, LogDir: logDir, ClusterID: 7}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range SkipsMax {
		if err := d.KeepSkip(skipForTests(uint64(i + 1))); err != nil {
			t.Fatal(err)
		}
	}
	agreed := skipForTests(2)
	agreed.Agreed, agreed.From = true, 5
	if err := d.KeepSkip(agreed); err != nil {
		t.Fatal(err)
	}
	if err := d.KeepSkip(skipForTests(100)); err == nil {
		t.Error("one too many was kept")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all, err := d.Skips()
	if err != nil || len(all) != SkipsMax || all[0] != skipForTests(1) || all[1] != agreed {
		t.Fatalf("read back: %v, %v", all, err)
	}
	if err := d.DropSkip(2); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Skips(); err != nil || len(all) != SkipsMax-1 {
		t.Errorf("after one is dropped: %v, %v", all, err)
	}
	long := skipForTests(2)
	long.Why = strings.Repeat("x", SkipTextMax+1)
	if err := d.KeepSkip(long); err == nil {
		t.Error("a reason that is too long was kept")
	}
}

// TestBadSkips: a decision's file that is torn, changed, huge, misnamed or of another
// cluster is refused with its name, and no other one is read.
func TestBadSkips(t *testing.T) {
	t.Parallel()
	good := skipForTests(12)
	text := string(good.append(nil))
	foreign := good
	foreign.Cluster = 8
	for name, b := range map[string]string{
		"empty": "", "torn": text[:len(text)-5], "without its check": text[:strings.Index(text, "check")],
		"garbage": "garbage",
		"changed": strings.Replace(text, "agreed false", "agreed true", 1), "longer": text + "\n",
		"huge":               text + strings.Repeat("x", skipSizeMax),
		"of another cluster": string(foreign.append(nil)), "of another version": strings.Replace(text, "format 1", "format 2",
			1),
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "entry-12.skip")
		if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := Skips(OS{}, dir, 7); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	for _, name := range []string{"entry-13.skip", "entry-012.skip", "entry-x.skip", "entry-.skip"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := Skips(OS{}, dir, 7); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("as %s: %v, %v", name, all, err)
		}
	}
}

// TestSkipRemovedMeanwhile: a decision is withdrawn between the listing of the files and their reading. The others are
// read all the same.
func TestSkipRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 1)
	for _, index := range []uint64{5, 6, 7} {
		if err := d.KeepSkip(skipForTests(index)); err != nil {
			t.Fatal(err)
		}
	}
	memory.Hook = func(c Call) error {
		if c.Op == "open" && strings.HasSuffix(c.Name, "entry-6.skip") {
			return &fs.PathError{Op: c.Op, Path: c.Name, Err: fs.ErrNotExist}
		}
		return nil
	}
	if all, err := d.Skips(); err != nil || len(all) != 2 || all[0].Index != 5 || all[1].Index != 7 {
		t.Errorf("decisions: %v, %v", all, err)
	}
}

// FuzzParseSkip: any bytes are a decision that is written the same way, or an error.
func FuzzParseSkip(f *testing.F) {
	s := skipForTests(12)
	f.Add(s.append(nil))
	f.Add(s.append(nil)[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseSkip(b); err == nil && !bytes.Equal(s.append(nil), b) {
			t.Errorf("%q is read as %+v", b, s)
		}
	})
}

// TestSkipAtTheLimit: the longest name and reason are kept and read, and none that is a byte longer; a file of the
// largest size is looked at, and none that is a byte larger.
func TestSkipAtTheLimit(t *testing.T) {
	t.Parallel()
	fsys, dir := OS{}, t.TempDir()
	longest := strings.Repeat("\x1b", SkipTextMax) // written as four bytes each
	for name, set := range map[string]func(*Skip, string){
		"name": func(s *Skip, text string) { s.By = text }, "reason": func(s *Skip, text string) { s.Why = text },
	} {
		s := skipForTests(1)
		set(&s, longest)
		if err := WriteSkip(fsys, dir, s); err != nil {
			t.Errorf("the longest %s: %v", name, err)
		}
		if all, err := Skips(fsys, dir, s.Cluster); err != nil || len(all) != 1 || all[0] != s {
			t.Errorf("the longest %s is read as %v, %v", name, all, err)
		}
		set(&s, longest+"x")
		if err := WriteSkip(fsys, dir, s); err == nil {
			t.Errorf("a %s of %d bytes is kept", name, len(longest)+1)
		}
		if _, err := ParseSkip(s.append(nil)); err == nil {
			t.Errorf("a %s of %d bytes is read", name, len(longest)+1)
		}
	}
	tooLarge := "more than"
	if _, err := ParseSkip(make([]byte, skipSizeMax)); err == nil || strings.Contains(err.Error(), tooLarge) {
		t.Errorf("a file of the largest size: %v", err)
	}
	if _, err := ParseSkip(make([]byte, skipSizeMax+1)); err == nil || !strings.Contains(err.Error(), tooLarge) {
		t.Errorf("a file that is a byte larger: %v", err)
	}
}
