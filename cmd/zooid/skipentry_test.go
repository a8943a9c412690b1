package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestSkipEntry: the command shows the report, asks, and keeps the decision; it refuses
// where there is no report, or the server runs.
func TestSkipEntry(t *testing.T) {
	t.Parallel()
	dir, logDir := t.TempDir(), t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("dataDir="+dir+"\ndataLogDir="+logDir+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := skipEntry(args, strings.NewReader(stdin), &out, &errs); code != want {
			t.Fatalf("skip-entry %q: exit code %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	says := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in\n%s", part, text)
			}
		}
	}
	says(run("", 2, cfg), "usage: zooid skip-entry")
	says(run("", 2, "-why", " ", cfg), "usage: zooid skip-entry")
	says(run("", 1, "-yes", "-why", "it panics", cfg), "there is no report of an entry in "+logDir)

	d, err := storage.Open(storage.Options{Dir: dir, LogDir: logDir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.KeepReport(storage.Report{
		Index: 12, Term: 3, Data: []byte("entry"), Text: "a stack\x1b[2J\n" + strings.Repeat("line\n", 100),
	}); err != nil {
		t.Fatal(err)
	}
	says(run("", 1, "-yes", "-why", "it panics", cfg), "stop the server first")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	text := run("no\n", 1, "-why", "it panics", cfg)
	says(text, "entry 12 of term 3", "a stack?[2J", "more lines in the report's file", "Type yes", "nothing was decided")
	if strings.Contains(text, "\x1b") {
		t.Error("the terminal is sent what is in the report")
	}
	if all, err := storage.Skips(storage.OS{}, logDir, 7); err != nil || len(all) != 0 {
		t.Fatalf("after a no: %v, %v", all, err)
	}
	says(run("yes\n", 0, "-by", "ann", "-why", "it panics", cfg), "Make the same decision on every other server",
		storage.HashEntry([]byte("entry")).String())
	all, err := storage.Skips(storage.OS{}, logDir, 7)
	if err != nil || len(all) != 1 || all[0].Index != 12 || all[0].By != "ann" || all[0].Why != "it panics" ||
		all[0].Agreed || all[0].Hash != storage.HashEntry([]byte("entry")) {
		t.Fatalf("after a yes: %+v, %v", all, err)
	}
	says(run("", 0, "-yes", "-why", "again", cfg), "already decided", "waits for the others", "every other server")
	agreed := all[0]
	agreed.Agreed = true
	if err := storage.WriteSkip(storage.OS{}, logDir, agreed); err != nil {
		t.Fatal(err)
	}
	says(run("", 0, "-yes", "-why", "again", cfg), "all members have decided", "nothing is left to decide",
		"Start the server")
	other := all[0]
	other.Term, other.Hash = 2, storage.HashEntry([]byte("another"))
	if err := storage.WriteSkip(storage.OS{}, logDir, other); err != nil {
		t.Fatal(err)
	}
	says(run("", 0, "-yes", "-by", "ann", "-why", "it panics", cfg), "this decision replaces the one above, which is about another entry 12, of term 2",
		"entry 12 of term 3 is to be skipped")
	says(run("", 0, "-list", logDir), "entry 12 of term 3", `skipped by "ann"`, `"it panics"; waits until all members`)
	if err := os.WriteFile(filepath.Join(logDir, "entry-13.skip"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(run("", 1, "-list", cfg), "entry-13.skip", "move it elsewhere")
}

// TestSkipEntryByPlace: a server without a report is told of the entry by its place, and a decision that not all have
// made is taken back.
func TestSkipEntryByPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(stdin string, want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := skipEntry(append(args, dir), strings.NewReader(stdin), &out, &errs); code != want {
			t.Fatalf("skip-entry %q: exit code %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	skips := func() []storage.Skip {
		t.Helper()
		all, err := storage.Skips(storage.OS{}, dir, 7)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	place := storage.Skip{Index: 12, Term: 3, Hash: storage.HashEntry([]byte("entry"))}
	if text := run("", 1, "-yes", "-why", "it panics", "-entry", place.Place()); !strings.Contains(text, "is new") {
		t.Errorf("a new directory: %s", text)
	}
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	if text := run("", 1, "-withdraw"); !strings.Contains(text, "stop the server first") {
		t.Errorf("while the server runs: %s", text)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	hash := place.Hash.String()
	for _, bad := range []string{
		"12", "12:3", "12:3:" + hash[1:], "0:3:" + hash, "12:0:" + hash, "12:-1:" + hash, "12:3:" + hash + ":1", ":3:" + hash,
		"12:3:" + strings.Repeat("x", len(hash)), "99999999999999999999:3:" + hash,
	} {
		run("", 2, "-yes", "-why", "it panics", "-entry", bad)
	}
	run("", 2, "-withdraw", "-entry", place.Place())
	run("", 2, "-withdraw", "-list")
	if text := run("", 0, "-yes", "-withdraw"); !strings.Contains(text, "nothing to withdraw") {
		t.Error(text)
	}
	run("no\n", 1, "-why", "it panics", "-entry", place.Place())
	run("yes\n", 0, "-by", "ann", "-why", "it panics", "-entry", place.Place())
	if all := skips(); len(all) != 1 || !all[0].SamePlace(&place) || all[0].By != "ann" || all[0].Agreed {
		t.Fatalf("it keeps %+v", all)
	}
	run("no\n", 1, "-withdraw")
	if all := skips(); len(all) != 1 {
		t.Fatalf("after a no: %+v", all)
	}
	run("yes\n", 0, "-withdraw")
	if all := skips(); len(all) != 0 {
		t.Fatalf("after a yes: %+v", all)
	}
	agreed := place
	agreed.Cluster, agreed.Agreed, agreed.At = 7, true, time.Unix(1e9, 0)
	if err := storage.WriteSkip(storage.OS{}, dir, agreed); err != nil {
		t.Fatal(err)
	}
	run("", 0, "-yes", "-withdraw")
	if all := skips(); len(all) != 1 {
		t.Fatal("a decision that all have made is taken back")
	}
}
