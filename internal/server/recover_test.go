package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// snapshotted runs a server on a new folder until it has written a snapshot, ends
// it, and returns the folder, the snapshot's file and how many znodes there are.
func snapshotted(t *testing.T) (dir, file string, written int) {
	dir = t.TempDir()
	s, err := Open(Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}, Serving: Serving{SnapCount: 10}})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, s.Addrs()[0].String(), 0, nil)
	for file == "" {
		if h, _ := client.call(jute.OpCreate, creating(fmt.Sprintf("/n%d", written), []byte("x"), 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		written++
		if files, _ := filepath.Glob(filepath.Join(dir, "*.snap")); len(files) > 0 {
			file = files[len(files)-1]
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.snap")); len(files) > 0 {
		file = files[len(files)-1]
	}
	return dir, file, written
}

// earlyAnd makes an early tree of a folder, and opens the folder beside it.
func earlyAnd(t *testing.T, dir string) (*treeload.Early, storage.Meta) {
	cluster, err := storage.ReadIdentity(storage.OS{}, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	e := treeload.Begin(dir, treeload.Options(cluster, nil, tree.FeatureLevelMax))
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, _ := d.NewestSnapshot()
	return e, m
}

// TestEarlyTree makes the tree of a snapshot that storage then finds to be the
// newest, or damaged; a server starts on either with all that was written.
func TestEarlyTree(t *testing.T) {
	t.Parallel()
	dir, file, written := snapshotted(t)
	serves := func(when string) {
		s, err := Open(Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer s.Close()
		client := connect(t, s.Addrs()[0].String(), 0, nil)
		for n := range written {
			if h, _ := client.call(jute.OpGetData, reading(fmt.Sprintf("/n%d", n), false)); h.Err != jute.OK {
				t.Fatalf("%s: znode %d of %d: %v", when, n, written, h.Err)
			}
		}
	}
	e, m := earlyAnd(t, dir)
	other := m
	other.Digest++
	if tr := e.Take(m); tr == nil || tr.LastIndex() != m.Index || tr.Digest() != m.Digest {
		t.Error("no tree of the newest snapshot, or another one")
	}
	if e, _ := earlyAnd(t, dir); e.Take(other) != nil {
		t.Error("the tree of another snapshot was taken")
	}
	e = treeload.Begin(dir, tree.Options{})
	e.GiveUp()
	serves("whole")

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	e, m = earlyAnd(t, dir)
	if e.Take(m) != nil {
		t.Error("the tree of a damaged snapshot was taken")
	}
	serves("damaged")

	e = treeload.Begin(t.TempDir(), tree.Options{})
	if e.Take(storage.Meta{}) != nil {
		t.Error("a tree of an empty folder")
	}
	if _, err := storage.PeekSnapshot(storage.OS{}, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the snapshot of an empty folder: %v", err)
	}
}
