package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// panicAt panics when the request that makes a znode has been evaluated and nothing was
// told of it yet.
func panicAt(path string) func(*tree.Result) {
	return func(res *tree.Result) {
		if res.Op == jute.OpCreate && res.Err == jute.OK && res.Path == path {
			panic("planted: " + path)
		}
	}
}

// breaksDown waits until a server ends with a panic at an entry, and closes it.
func breaksDown(t *testing.T, s *Server) *PanicError {
	t.Helper()
	select {
	case err := <-s.Failed():
		var e *PanicError
		if !errors.As(err, &e) {
			t.Fatalf("the server ended with %v", err)
		}
		s.Close()
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("the server goes on")
	}
	return nil
}

// TestPanicInApply: a panic while an entry is applied ends the server and shows nobody
// its state; the report and the entry lie beside the log, and the next start ends the
// same way without another report.
func TestPanicInApply(t *testing.T) {
	t.Parallel()
	for _, logDir := range []string{"", t.TempDir()} {
		opt := Options{DataDir: t.TempDir(), LogDir: logDir, Listen: []string{"127.0.0.1:0"}, Version: "0.0-test", observe: panicAt(`/bad"`)}
		s, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		reader := connect(t, s.Addrs()[0].String(), 0, nil)
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		if h, _ := c.call(jute.OpCreate, creating("/good", nil, 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		b := c.request(nil, jute.OpCreate, creating("/before", nil, 0))
		b = c.request(b, jute.OpCreate, creating(`/bad"`, []byte("secret"), 0))
		b = c.request(b, jute.OpCreate, creating("/after", nil, 0))
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		e := breaksDown(t, s)
		reader.conn.Write(reader.request(nil, jute.OpExists, reading(`/bad"`, false)))
		if !reader.ends() {
			t.Error("a client was told something after the panic")
		}
		first := checkReport(t, e)

		if s, err = Open(opt); err != nil {
			t.Fatal(err)
		}
		again := breaksDown(t, s)
		if *again != *e {
			t.Errorf("the next start ended with\n%v\nthe first one with\n%v", again, e)
		}
		if now := checkReport(t, again); now != first {
			t.Errorf("the report was written anew:\n%s", now)
		}
	}
}

// checkReport holds a report against the error that names it and returns its text.
func checkReport(t *testing.T, e *PanicError) string {
	t.Helper()
	b, err := os.ReadFile(e.Report)
	if err != nil {
		t.Fatal(err)
	}
	r, err := storage.ParseReport(b)
	if err != nil {
		t.Fatal(err)
	}
	if r.Index != e.Index || r.Term != e.Term || r.Hash.String() != e.Hash {
		t.Errorf("the report is of entry %d of term %d, %v; the error of %d, %d, %s", r.Index, r.Term, r.Hash, e.Index, e.Term, e.Hash)
	}
	for _, part := range []string{"planted: /bad", "0.0-test", `-> `, `path "/bad\"", data of 6 bytes`, "breakdown_test.go"} {
		if !strings.Contains(r.Text, part) {
			t.Errorf("the report doesn't say %q:\n%s", part, r.Text)
		}
	}
	if strings.Contains(r.Text, "secret") {
		t.Errorf("the report shows data:\n%q", r.Text)
	}
	raw, err := os.ReadFile(strings.TrimSuffix(e.Report, ".report") + ".raw")
	if err != nil || storage.HashEntry(raw) != r.Hash || !bytes.Contains(raw, []byte("secret")) {
		t.Errorf("the entry beside the report: %d bytes, %v", len(raw), err)
	}
	if all, err := filepath.Glob(filepath.Join(filepath.Dir(e.Report), "entry-*")); err != nil || len(all) != 2 {
		t.Errorf("beside the log lie %v, %v", all, err)
	}
	return r.Text
}
