package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotStep is every how many bytes of a file are damaged; the steps of the short form are prime to all fields' sizes.
func rotStep() int {
	if testing.Short() {
		return 29
	}
	return 1
}

// rotten calls try with each damaged form of a file: one byte changed, or cut before that byte. at is the byte's
// offset. The file is changed in place, so that open files see it, and is whole again afterwards.
func rotten(t *testing.T, fs *MemFS, name string, try func(what string, at int64, cut bool)) {
	t.Helper()
	f, err := fs.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	whole, err := readWhole(f, nil, size)
	if err != nil || size == 0 {
		t.Fatalf("%s has %d bytes: %v", name, size, err)
	}
	write := func(b []byte, off int64) {
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	for i := int64(0); i < size; i += int64(rotStep()) {
		for _, change := range []byte{1 << (i % 8), 0xff} {
			write([]byte{whole[i] ^ change}, i)
			try(fmt.Sprintf("%s with byte %d changed by %#x", name, i, change), i, false)
			write(whole[i:i+1], i)
		}
		if err := f.Truncate(i); err != nil {
			t.Fatal(err)
		}
		try(fmt.Sprintf("%s cut to %d bytes", name, i), i, true)
		write(whole[i:], i)
	}
}

// A region of a segment is its header, or a frame.
type region struct {
	off, end int64
	seal     bool
}

// regionOf returns the part of a segment that holds the byte at an offset; ok is false where nothing counts.
func regionOf(all []region, at int64) (r region, ok bool) {
	i := slices.IndexFunc(all, func(r region) bool { return r.off <= at && at < r.end })
	if i < 0 {
		return r, false
	}
	return all[i], true
}

func regions(t *testing.T, b []byte) []region {
	t.Helper()
	s, err := parseSegmentHeader("log", b)
	if err != nil {
		t.Fatal(err)
	}
	all := []region{{0, segmentCRCAt + 4, false}}
	for off := int64(segmentStart); off < int64(len(b)); {
		h, _, fault := parseFrame(b[off:], s.salt, func(int, record) {})
		if fault != "" {
			break
		}
		all = append(all, region{off, off + int64(h.length), h.flags&flagSeal != 0})
		off += int64(pad(int(h.length), sectorSize))
	}
	return all
}

// tailed is walked, as a Tail reads the log.
func tailed(fs FS, dir string) (string, error) {
	var steps []string
	tail := NewTail(fs, dir)
	err := tail.Read(func(s LogStep) error {
		text := ""
		for _, e := range s.Entries {
			text += fmt.Sprintf("%d/%d/%x ", e.Index, e.Term, e.Data)
		}
		steps = append(steps, fmt.Sprintf("%t %d %s%d", s.Begins, s.After, text, s.Committed))
		return nil
	})
	return strings.Join(steps, ", "), errors.Join(err, tail.Close())
}

// TestToolsOnRottenLog: what tools read of a log with a damaged byte, or that is cut, ends before the first batch with
// damage, and is never anything else. Describe names the segment and that batch.
func TestToolsOnRottenLog(t *testing.T) {
	t.Parallel()
	bed := newDamageBed(t)
	walkedWhole, err := walked(bed.fs, "data")
	tailedWhole, tailErr := tailed(bed.fs, "data")
	if err := errors.Join(err, tailErr); err != nil || len(tailedWhole) < 1000 {
		t.Fatal(err)
	}
	segments := []string{segmentName(1), segmentName(2)}
	for n, name := range segments {
		parts := regions(t, bed.fs.content(name))
		last := n == 1 // its last batch may be torn
		rotten(t, bed.fs, "data/"+name, func(what string, at int64, cut bool) {
			part, counts := regionOf(parts, at)
			if cut { // the first part that isn't whole
				i := slices.IndexFunc(parts, func(r region) bool { return at < r.end })
				if counts = i >= 0; counts {
					part = parts[i]
				}
			}
			counts = counts && !part.seal
			have, err := walked(bed.fs, "data")
			if err != nil || !strings.HasPrefix(walkedWhole, have) || (have == walkedWhole) == counts {
				t.Errorf("%s: walked %q, %v", what, have, err)
			}
			have, err = tailed(bed.fs, "data")
			lost := errors.Is(err, ErrTailLost) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !lost || !strings.HasPrefix(tailedWhole, have) || (have == tailedWhole) == counts {
				t.Errorf("%s: followed %.200q, %v", what, have, err)
			}
			err = Describe(io.Discard, bed.fs, "data")
			damage := (*DamageError)(nil)
			switch found := errors.As(err, &damage); {
			case err != nil && !found:
				t.Errorf("%s: described: %v", what, err)
			case found && cut: // the end of the file is named, too
			case found && (damage.File != "data/"+name || damage.Offset != part.off || !counts):
				t.Errorf("%s: described: %v", what, err)
			case !found && counts && !(last && part == parts[len(parts)-1]):
				t.Errorf("%s: described without damage", what)
			}
		})
	}
}

// TestEntriesOfRottenLog: an entry that is read from a damaged segment is whole, or the error names its place.
func TestEntriesOfRottenLog(t *testing.T) {
	t.Parallel()
	bed := newDamageBed(t)
	o := smallOptions(bed.fs, 1)
	o.SegmentSize, o.Space.ReserveBytes, o.CacheSize = 12*sectorSize, -1, 1
	d := mustOpen(t, o)
	for n, s := range d.log.segments {
		first, last := s.prev.index+1, s.last
		if n == 1 {
			last-- // the last entry is in memory
		}
		seen := 0
		rotten(t, bed.fs, s.path, func(what string, at int64, cut bool) {
			for i := first; i <= last; i++ {
				p := d.log.places[i-d.log.base.index-1]
				from := int64(p.at) * 8
				end := from + recordHeaderSize + int64(p.size)
				list, err := d.Log().Entries(i, i+1, 1<<40)
				damage := (*DamageError)(nil)
				switch hit := from <= at && at < end; {
				case cut && at < from+recordHeaderSize+int64(pad(int(p.size), 8)):
					if !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), s.path) {
						t.Errorf("%s: entry %d: %v", what, i, err)
					}
				case hit && !cut:
					seen++
					if !errors.As(err, &damage) || damage.File != s.path || damage.Offset != from {
						t.Errorf("%s: entry %d: %v", what, i, err)
					}
				case err != nil:
					t.Errorf("%s: entry %d: %v", what, i, err)
				default:
					want := bed.m.entries[i-1]
					if string(list[0].GetData()) != string(want.GetData()) || list[0].GetTerm() != want.GetTerm() {
						t.Errorf("%s: entry %d is another one", what, i)
					}
				}
			}
		})
		if seen == 0 {
			t.Errorf("no entry of %s was hit", s.path)
		}
	}
}

// TestRottenSnapshot: each damaged byte of a snapshot is found when the whole file is verified, with its place. A
// snapshot that is only loaded has the content of before, or the error names the place.
func TestRottenSnapshot(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	d := filled(t, fs, 6)
	content := strings.Repeat("content of some znodes, ", 20)
	takeSnapshot(t, d, 4, []byte(content[:100]), []byte(content[100:]))
	name := d.snapshotPath(4)
	size := int64(len(fs.content(strings.TrimPrefix(name, "data/"))))
	rotten(t, fs, name, func(what string, at int64, cut bool) {
		_, err := d.verify(4)
		damage := (*DamageError)(nil)
		if !errors.As(err, &damage) || damage.File != name || damage.Offset < 0 || damage.Offset > size {
			t.Errorf("%s: verified: %v", what, err)
		} else if !cut && damage.Offset > at && damage.Offset != size-snapFooterSize {
			t.Errorf("%s: the damage is said to be later: %v", what, err)
		}
		s, err := PeekSnapshot(fs, "data")
		if err == nil {
			var got []byte
			err = s.Load(func(chunk []byte) ([]byte, error) { got = append(got, chunk...); return nil, nil })
			if err == nil && string(got) != content {
				t.Errorf("%s: %q is loaded", what, got)
			}
			s.Close()
		}
		if err != nil && (!errors.As(err, &damage) || damage.File != name) {
			t.Errorf("%s: loaded: %v", what, err)
		}
	})
}

// TestRottenSmallFiles: no damaged decision to skip an entry is read, nor a damaged IDENTITY that opens the directory.
// A report is of the entry in its name, or isn't read; its other numbers are compared with the log's entry before
// anything is decided. A kept file belongs to its writer, which checks it.
func TestRottenSmallFiles(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	d := mustOpen(t, o)
	skip := Skip{Index: 7, Term: 1, At: time.Unix(1e9, 0).UTC(), By: "ann", Why: "it panics"}
	if err := d.KeepSkip(skip); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.KeepReport(Report{Index: 3, Term: 1, Data: []byte("entry"), Text: "it panics"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	rotten(t, fs, "data/entry-7.skip", func(what string, _ int64, _ bool) {
		if all, err := Skips(fs, "data", 0); err == nil || !strings.Contains(err.Error(), "data/entry-7.skip") {
			t.Errorf("%s: %v, %v", what, all, err)
		}
	})
	rotten(t, fs, "data/entry-3.report", func(what string, _ int64, _ bool) {
		all, err := Reports(fs, "data")
		if err != nil && !strings.Contains(err.Error(), "data/entry-3.report") {
			t.Errorf("%s: %v", what, err)
		}
		if len(all) > 0 && all[0].Index != 3 {
			t.Errorf("%s: a report on entry %d", what, all[0].Index)
		}
	})
	rotten(t, fs, "data/"+identityName, func(what string, _ int64, _ bool) {
		cluster, err := ReadIdentity(fs, "data", "")
		if err == nil {
			o.ClusterID = cluster
			_, err = Examine(o)
		}
		if err == nil || !strings.Contains(err.Error(), "data/") {
			t.Errorf("%s: examined as cluster %#x: %v", what, cluster, err)
		}
	})
}
