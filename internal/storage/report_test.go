package storage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport: a report and its entry lie beside the log, are kept once, and make room for
// another entry's at the same index.
func TestReport(t *testing.T) {
	t.Parallel()
	dir, logDir := t.TempDir(), t.TempDir()
	d, err := Open(Options{Dir: dir, LogDir: logDir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	keep := func(r Report, wantKept bool) string {
		t.Helper()
		path, kept, err := d.KeepReport(r)
		if err != nil || kept != wantKept || filepath.Dir(path) != logDir {
			t.Fatalf("%s, kept %t, %v", path, kept, err)
		}
		return path
	}
	path := keep(Report{Index: 12, Term: 3, Data: []byte("entry"), Text: "one\n\ntwo\n"}, true)
	keep(Report{Index: 12, Term: 3, Data: []byte("entry"), Text: "other words"}, false)
	all, err := Reports(OS{}, logDir)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if r := all[0]; r.Index != 12 || r.Term != 3 || r.Cluster != 7 || r.Hash != HashEntry([]byte("entry")) ||
		r.Text != "one\n\ntwo\n" {
		t.Errorf("read back: %+v", r)
	}
	if raw, err := os.ReadFile(strings.TrimSuffix(path, ".report") + ".raw"); err != nil || string(raw) != "entry" {
		t.Errorf("the entry: %q, %v", raw, err)
	}
	keep(Report{Index: 12, Term: 4, Data: []byte("another"), Text: "new"}, true)
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	keep(Report{Index: 12, Term: 4, Data: []byte("another"), Text: "new"}, true)
}

// TestReportsMax: so many reports are kept, each of so many bytes.
func TestReportsMax(t *testing.T) {
	t.Parallel()
	d, err := Open(Options{Dir: t.TempDir(), ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range reportsMax {
		if _, _, err := d.KeepReport(Report{Index: uint64(i + 1), Text: strings.Repeat("x", 2*reportSizeMax)}); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := Reports(OS{}, d.path); err != nil || len(all) != reportsMax || len(all[0].Text) < reportSizeMax-1000 {
		t.Fatalf("%d reports, %v", len(all), err)
	}
	if _, _, err := d.KeepReport(Report{Index: 1000}); err == nil ||
		!strings.Contains(err.Error(), "move them elsewhere") {
		t.Errorf("one more: %v", err)
	}
	if _, kept, err := d.KeepReport(Report{Index: 1}); err != nil || kept {
		t.Errorf("one of them: %v, kept %t", err, kept)
	}
}

// FuzzParseReport: any bytes are a report that is written the same way, or an error.
func FuzzParseReport(f *testing.F) {
	r := Report{Cluster: 1, Index: 2, Term: 3, Text: "text"}
	f.Add(r.append(nil))
	f.Add([]byte(fmt.Sprintf("%scluster 1\n", reportHead)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseReport(b); err == nil && !bytes.Equal(r.append(nil), b) {
			t.Errorf("%q is read as %+v", b, r)
		}
	})
}
