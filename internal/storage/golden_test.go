package storage

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code does")

// golden compares got with a file of testdata, or writes it with -rewrite.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; see the change with -rewrite and git diff. Got:\n%s", file, got)
	}
}

// goldenRun is one directory whose life is written down.
type goldenRun struct {
	t   *testing.T
	out strings.Builder
	fs  *MemFS
	d   *Dir
}

func (g *goldenRun) op(title string, do func() error) {
	g.t.Helper()
	fmt.Fprintf(&g.out, "%s\n----\n", title)
	g.fs.Hook = func(c Call) error {
		line := c.Op + " " + path.Base(c.Name)
		switch c.Op {
		case "rename":
			line += " to " + path.Base(c.To)
		case "read", "write":
			line += fmt.Sprintf(" %d+%d", c.Off, c.Bytes)
		case "allocate", "truncate":
			line += fmt.Sprintf(" %d", c.Bytes)
		}
		g.out.WriteString(line + "\n")
		return nil
	}
	if err := do(); err != nil {
		g.t.Fatalf("%s: %v", title, err)
	}
	g.fs.Hook = nil
	g.out.WriteString("\n")
}

func (g *goldenRun) open() (err error) {
	o := smallOptions(g.fs, 1)
	g.d, err = Open(o)
	return err
}

func (g *goldenRun) append(index uint64, n, size int) func() error {
	return func() error { return g.d.Log().Append(hs(1, 1, index-1), batch(index, 1, n, size), true) }
}

func (g *goldenRun) snapshot(index uint64) func() error {
	return func() error {
		w, err := g.d.CreateSnapshot(Meta{Index: index, Term: 1, Zxid: 77, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			return err
		}
		if err := w.WriteChunk([]byte("the state")); err != nil {
			return err
		}
		return w.Commit()
	}
}

// TestFileSystemCalls pins down every call to the file system, in order: a sync that goes missing shows in review.
func TestFileSystemCalls(t *testing.T) {
	t.Parallel()
	g := &goldenRun{t: t, fs: NewMemFS()}
	g.op("open a new directory", g.open)
	g.op("append one entry of 100 bytes", g.append(1, 1, 100))
	g.op("append a HardState without sync: nothing is written", func() error {
		return g.d.Log().Append(hs(1, 1, 1), nil, false)
	})
	g.op("append 4 entries of 300 bytes: more than half full, a spare is made", g.append(2, 4, 300))
	g.op("append 2 entries of 300 bytes: the next segment", g.append(6, 2, 300))
	g.op("snapshot at 7", g.snapshot(7))
	g.op("purge: the first segment becomes a spare", func() error { _, _, err := g.d.Purge(1, 0); return err })
	g.op("append 3 entries of 500 bytes", g.append(8, 3, 500))
	g.op("append 3 entries of 500 bytes: the purged segment is used again", g.append(11, 3, 500))
	g.op("read an entry no longer in memory", func() error { _, err := g.d.Log().Entries(8, 9, 1000); return err })
	g.op("close", func() error { return g.d.Close() })
	g.op("open again", g.open)
	raw, err := peerSnapshot(position{20, 2}, []byte("from a peer"))
	if err != nil {
		t.Fatal(err)
	}
	g.op("install a snapshot at 20 from a peer", func() error {
		w, err := g.d.ReceiveSnapshot()
		if err != nil {
			return err
		}
		if err := w.WriteRaw(raw); err != nil {
			return err
		}
		return g.d.Install(w, hs(2, 0, 20))
	})
	golden(t, "calls.txt", g.out.String())
}

// TestDescribe pins down what the inspector prints, also of damaged files.
func TestDescribe(t *testing.T) {
	t.Parallel()
	g := &goldenRun{t: t, fs: NewMemFS()}
	for _, do := range []func() error{
		g.open, g.append(1, 4, 300), g.snapshot(3), g.append(5, 4, 300), g.append(9, 0, 0), g.append(9, 1, 0),
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	if err := Describe(&text, g.fs, "data"); err != nil {
		t.Fatal(err)
	}
	text.WriteString("\nthe snapshot and a batch are damaged, the last batch torn\n")
	for name, at := range map[string]int{segmentName(1): 1200, segmentName(2): 3100, "0000000000000003.snap": 100} {
		g.fs.Damage("data/"+name, func(b []byte) []byte { b[at] ^= 1; return b })
	}
	damage := (*DamageError)(nil)
	if err := Describe(&text, g.fs, "data"); !errors.As(err, &damage) {
		t.Errorf("of damaged files: %v", err)
	}
	golden(t, "describe.txt", text.String())
}

// TestDescribeTells damages a directory in ways that only its files together show,
// and wants a DamageError. What a crash leaves at the log's end is none.
func TestDescribeTells(t *testing.T) {
	t.Parallel()
	const first, last, snap = "data/0000000000000001.log", "data/0000000000000002.log", "data/0000000000000003.snap"
	build := func(t *testing.T, steps func(g *goldenRun) []func() error) *MemFS {
		g := &goldenRun{t: t, fs: NewMemFS()}
		for _, do := range steps(g) {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		return g.fs
	}
	for _, c := range []struct {
		what   string
		do     func(fs *MemFS)
		damage string // "" for none
	}{
		{"nothing", func(*MemFS) {}, ""},
		{"the last batch torn", func(fs *MemFS) { flip(fs, last, 3100) }, ""},
		{"the segment after a sealed one is gone", func(fs *MemFS) { remove(t, fs, last) }, "log segment 2 is missing"},
		{"the first segment is gone, and no snapshot reaches the other", func(fs *MemFS) { remove(t, fs, first) },
			"begins after index 4"},
		{"a segment cut off", func(fs *MemFS) { fs.Damage(last, func(b []byte) []byte { return b[:3584] }) },
			"cut from 4096 bytes to 3584"},
		{"a segment under another's name", func(fs *MemFS) {
			var other []byte
			fs.Damage(first, func(b []byte) []byte { other = slices.Clone(b); return b })
			fs.Damage(last, func([]byte) []byte { return other })
		}, "holds log segment 1"},
		{"a batch lost at the end of the first segment", func(fs *MemFS) {
			fs.Damage(first, func(b []byte) []byte { clear(b[1024:]); return b })
		}, "follows batch 2, the one before it ends with batch 1"},
		{"a snapshot's bit", func(fs *MemFS) { flip(fs, snap, 100) }, "header of chunk 0 wrong"},
		{"a log that ends before the snapshot", func(fs *MemFS) {
			remove(t, fs, last)
			fs.Damage(first, func(b []byte) []byte { clear(b[1024:]); return b })
		}, "ends at index 0, before the snapshot at 3"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			fs := build(t, func(g *goldenRun) []func() error {
				return []func() error{
					g.open, g.append(1, 4, 300), g.snapshot(3), g.append(5, 4, 300), g.append(9, 0, 0), g.append(9, 1, 0),
				}
			})
			c.do(fs)
			err := Describe(io.Discard, fs, "data")
			damage := (*DamageError)(nil)
			switch {
			case c.damage == "" && err != nil, c.damage != "" && !errors.As(err, &damage),
				err != nil && !strings.Contains(err.Error(), c.damage):
				t.Errorf("%v, want %q", err, c.damage)
			}
		})
	}
	short := build(t, func(g *goldenRun) []func() error {
		return []func() error{g.open, g.append(1, 4, 300), g.append(12, 0, 0)}
	})
	err := Describe(io.Discard, short, "data")
	if err == nil || !strings.Contains(err.Error(), "ends at index 4, but 11 was committed") {
		t.Errorf("a log without what was committed: %v", err)
	}
	if err := Describe(io.Discard, NewMemFS(), "/"); err == nil {
		t.Error("a directory without a log is whole")
	}
}

func flip(fs *MemFS, name string, at int) {
	fs.Damage(name, func(b []byte) []byte { b[at] ^= 1; return b })
}

func remove(t *testing.T, fs *MemFS, name string) {
	t.Helper()
	if err := fs.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// TestOldFilesOpen opens a directory written by the first version of the format. The files never change.
func TestOldFilesOpen(t *testing.T) {
	t.Parallel()
	const dir = "testdata/format1"
	if _, err := os.Stat(dir); *rewrite && os.IsNotExist(err) {
		writeFormat1(t, dir)
	}
	fs := NewMemFS()
	if err := fs.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		fs.Damage("data/"+e.Name(), func([]byte) []byte { return b })
	}
	d := mustOpen(t, smallOptions(fs, 2))
	m := format1Model()
	if diff := m.differs(d) + m.snapshotDiffers(d); diff != "" {
		t.Error(diff)
	}
}

func format1Model() model {
	m := model{}.append(hardState{1, 2, 4}, batch(1, 1, 8, 200)).append(hardState{2, 3, 4}, batch(8, 2, 3, 200))
	return m.withSnapshot(position{4, 1}, []byte("four"))
}

func writeFormat1(t *testing.T, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	o.Space.ReserveBytes = -1
	d := mustOpen(t, o)
	m := format1Model()
	w, err := d.CreateSnapshot(Meta{Index: 4, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		d.Log().Append(hs(1, 2, 4), batch(1, 1, 8, 200), true),
		d.Log().Append(hs(2, 3, 4), batch(8, 2, 3, 200), true),
		w.WriteChunk(m.snaps[4]), w.Commit(), d.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range namesOf(fs) {
		if err := os.WriteFile(dir+"/"+n, fs.content(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
