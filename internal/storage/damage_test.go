package storage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// damageBed is a data directory at rest: two log segments, one snapshot, the whole log still there.
type damageBed struct {
	fs    *MemFS
	m     model
	torn  model // m without its last batch
	names []string
}

// newDamageBed ends in a batch that was acknowledged, and nothing after it: all a crash may have cut off.
func newDamageBed(t *testing.T) *damageBed {
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	o.SegmentSize = 12 * sectorSize
	o.Space.ReserveBytes = -1
	d := mustOpen(t, o)
	b := &damageBed{fs: fs}
	for i := uint64(1); i <= 12; i++ {
		hard, entries := hardState{1, 2, i - 1}, batch(i, 1, 1, 60+int(i)*40)
		b.torn = b.m
		b.m = b.m.append(hard, entries)
		if err := d.Log().Append(hs(1, 2, i-1), entries, true); err != nil {
			t.Fatal(err)
		}
		if i == 6 {
			content := []byte("what the state was at six")
			w, err := d.CreateSnapshot(Meta{
				Index: 6, Term: 1, Zxid: 66, Digest: 7, ConfState: &raftpb.ConfState{Voters: []uint64{1}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(writeChunks(w, content), w.Commit()); err != nil {
				t.Fatal(err)
			}
			b.m = b.m.withSnapshot(position{6, 1}, content)
		}
	}
	if n := d.Log().Stats().Segments; n != 2 {
		t.Fatalf("%d segments; the bed is meant to have two", n)
	}
	b.names, _ = fs.ReadDir("data")
	b.fs = fs.Clone()
	return b
}

// verdicts counts how damaged directories were met.
type verdicts struct{ exact, torn, refused int }

// try damages a copy and recovers it. The log must be whole, or lack its last batch, or be refused with file and
// offset; the snapshot may be passed over, for the log reaches back to the beginning.
func (b *damageBed) try(v *verdicts, damage func(fs *MemFS)) string {
	fs := b.fs.Clone()
	damage(fs)
	o := smallOptions(fs, 2)
	o.SegmentSize = 12 * sectorSize
	o.Space.ReserveBytes = -1
	before := fs.Clone()
	notes, examined := Examine(o)
	if !sameFiles(before, fs) {
		return "examined, and files were changed"
	}
	d, err := Open(o)
	if (err == nil) != (examined == nil) || err == nil && !reflect.DeepEqual(notes.Torn, d.Recovered().Torn) {
		return fmt.Sprintf("examined it is %+v, %v; opened it is %v", notes, examined, err)
	}
	if err != nil {
		v.refused++
		e, seen := (*DamageError)(nil), (*DamageError)(nil)
		if !errors.As(err, &e) || e.File == "" || e.Reason == "" {
			return "refused without file and offset: " + err.Error()
		}
		if !errors.As(examined, &seen) || *seen != *e {
			return fmt.Sprintf("examined it is %v; opened it is %v", examined, err)
		}
		if !sameFiles(before, fs) {
			return "refused, but files were changed: " + err.Error()
		}
		return ""
	}
	defer d.Close()
	whole, short := b.m, b.torn
	if snap, _ := d.Log().Snapshot(); snap.GetMetadata().GetIndex() == 0 {
		whole.snap, short.snap = position{}, position{}
		if len(d.Recovered().DamagedSnapshots) == 0 && slices.Contains(namesOf(fs), "0000000000000006.snap") {
			return "the snapshot was passed over in silence"
		}
	}
	diff := whole.differs(d)
	if diff == "" {
		v.exact++
		return ""
	}
	if short.differs(d) == "" {
		v.torn++
		return ""
	}
	return diff
}

func namesOf(fs *MemFS) []string {
	names, _ := fs.ReadDir("data")
	return names
}

func sameFiles(a, b *MemFS) bool {
	names := namesOf(a)
	if !slices.Equal(names, namesOf(b)) {
		return false
	}
	for _, n := range names {
		if !slices.Equal(a.content(n), b.content(n)) {
			return false
		}
	}
	return true
}

func (m *MemFS) content(name string) (b []byte) {
	m.Damage("data/"+name, func(old []byte) []byte { b = old; return old })
	return b
}

func TestDamage(t *testing.T) {
	t.Parallel()
	bed := newDamageBed(t)
	cases := map[string]func(t *testing.T, b *damageBed, v *verdicts){
		"flip": flipEveryByte, "zero": zeroEverySector, "cut": cutAtEveryLength, "swap sectors": swapSectors,
		"files": moveFiles,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v verdicts
			run(t, bed, &v)
			t.Logf("%d cases: %d recovered exactly, %d without the last batch, %d refused", v.exact+v.torn+v.refused, v.exact,
				v.torn, v.refused)
			// A cut or moved file is always noticed as such, never taken for a torn batch.
			if mayTear := name != "cut" && name != "files"; v.exact == 0 || v.refused == 0 || (v.torn > 0) != mayTear {
				t.Error("a verdict is missing or one too many: the matrix does not test what it should")
			}
		})
	}
}

func (b *damageBed) each(t *testing.T, v *verdicts, what string, name string, change func([]byte) []byte) {
	t.Helper()
	if diff := b.try(v, func(fs *MemFS) { fs.Damage("data/"+name, change) }); diff != "" {
		t.Errorf("%s of %s: %s", what, name, diff)
	}
}

func flipEveryByte(t *testing.T, b *damageBed, v *verdicts) {
	for _, name := range b.names {
		for i := 0; i < len(b.fs.content(name)); i += rotStep() {
			b.each(t, v, fmt.Sprintf("bit %d of byte %d", i%8, i), name,
				func(c []byte) []byte { c[i] ^= 1 << (i % 8); return c })
		}
	}
}

func zeroEverySector(t *testing.T, b *damageBed, v *verdicts) {
	for _, name := range b.names {
		for off := 0; off < len(b.fs.content(name)); off += sectorSize {
			b.each(t, v, fmt.Sprintf("zeros at %d", off), name, func(c []byte) []byte {
				clear(c[off:min(off+sectorSize, len(c))])
				return c
			})
		}
	}
}

func cutAtEveryLength(t *testing.T, b *damageBed, v *verdicts) {
	for _, name := range b.names {
		for n := 0; n < len(b.fs.content(name)); n += rotStep() {
			b.each(t, v, fmt.Sprintf("cut to %d", n), name, func(c []byte) []byte { return c[:n:n] })
		}
	}
}

func swapSectors(t *testing.T, b *damageBed, v *verdicts) {
	for _, name := range b.names {
		n := len(b.fs.content(name)) / sectorSize
		for i := range n {
			for k := range i {
				b.each(t, v, fmt.Sprintf("sectors %d and %d swapped", k, i), name, func(c []byte) []byte {
					for x := range sectorSize {
						c[k*sectorSize+x], c[i*sectorSize+x] = c[i*sectorSize+x], c[k*sectorSize+x]
					}
					return c
				})
			}
		}
	}
}

// moveFiles removes, renames, copies and swaps whole files. The names it moves to are those the log itself would use.
func moveFiles(t *testing.T, b *damageBed, v *verdicts) {
	targets := append(slices.Clone(b.names), "0000000000000000.log", "0000000000000003.log", "0000000000000009.snap",
		"0000000000000003.snap", "spare-9", "x.tmp", "IDENTITY", "reserve", "foreign")
	for _, name := range b.names {
		content := b.fs.content(name)
		b.each(t, v, "removal", name, func([]byte) []byte { return nil })
		for _, to := range targets {
			if to == name {
				continue
			}
			moves := map[string]func(fs *MemFS){
				"copy": func(fs *MemFS) { fs.Damage("data/"+to, func([]byte) []byte { return slices.Clone(content) }) },
				"move": func(fs *MemFS) {
					fs.Damage("data/"+name, func([]byte) []byte { return nil })
					fs.Damage("data/"+to, func([]byte) []byte { return slices.Clone(content) })
				},
				"swap": func(fs *MemFS) {
					other := fs.content(to)
					fs.Damage("data/"+name, func([]byte) []byte { return other })
					fs.Damage("data/"+to, func([]byte) []byte { return slices.Clone(content) })
				},
			}
			for what, move := range moves {
				if diff := b.try(v, move); diff != "" {
					t.Errorf("%s of %s to %s: %s", what, name, to, diff)
				}
			}
		}
	}
}
