package storage

import (
	"errors"
	"runtime"
	"testing"
)

// allocated runs f and returns the bytes it allocated.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzFrame feeds the batch decoder anything. What it accepts must encode to the same bytes again.
func FuzzFrame(f *testing.F) {
	const salt = 7
	for _, entries := range [][]int{nil, {10}, {0, 300, 5}} {
		list := batch(3, 1, 0, 0)
		for i, size := range entries {
			list = append(list, batch(3+uint64(i), 1, 1, size)...)
		}
		b, _ := appendFrame(nil, &frameHeader{seq: 9, segment: 1, cluster: testCluster, chain: 4, hard: hardState{1, 2, 3}},
			salt, list)
		f.Add(b)
		f.Add(b[:len(b)-sectorSize/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// A checksum is rarely met by chance: mend the header's, so that what lies behind it is reached.
		for _, mend := range []bool{false, true} {
			if mend && len(b) >= frameHeaderSize {
				b = mendHeader(b, salt)
			}
			var records []record
			h, _, fault := parseFrame(b, salt, func(_ int, r record) {
				if len(r.data) > len(b) {
					t.Error("a record longer than its frame")
				}
				records = append(records, r)
			})
			if fault == "" && int(h.count) != len(records) {
				t.Errorf("header counts %d records, %d came", h.count, len(records))
			}
			if fault != "" && len(records) > 0 {
				t.Error("records of a damaged frame were handed out")
			}
			if n := allocated(func() { parseFrame(b, salt, func(int, record) {}) }); n > uint64(len(b))+64<<10 {
				t.Errorf("%d bytes allocated for %d", n, len(b))
			}
		}
	})
}

func mendHeader(b []byte, salt uint64) []byte {
	c := append([]byte(nil), b...)
	sum := crcUpdate(saltCRC(salt), c[:92])
	c[92], c[93], c[94], c[95] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	return c
}

// FuzzSnapshot feeds the snapshot reader any file.
func FuzzSnapshot(f *testing.F) {
	for _, content := range []string{"", "x", string(make([]byte, 3000))} {
		raw, err := peerSnapshot(position{7, 2}, []byte(content))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := NewMemFS()
		fs.Damage("s", func([]byte) []byte { return append([]byte{}, b...) })
		file, err := fs.OpenRead("s")
		if err != nil {
			t.Fatal(err)
		}
		for _, whole := range []bool{false, true} {
			var err error
			n := allocated(func() { _, err = scanSnapshot(file, "s", whole) })
			if n > uint64(len(b))+64<<10 {
				t.Errorf("%d bytes allocated for %d", n, len(b))
			}
			if damage := (*DamageError)(nil); err != nil && !errors.As(err, &damage) {
				t.Errorf("not a DamageError: %v", err)
			}
		}
		s, err := openSnapshot(fs, "s")
		if err != nil {
			return
		}
		total := int64(0)
		if err := s.Load(func(chunk []byte) ([]byte, error) { total += int64(len(chunk)); return chunk, nil }); err == nil &&
			total != s.raw {
			t.Errorf("%d bytes loaded, %d announced", total, s.raw)
		}
	})
}

// FuzzOpen opens a directory whose only segment is anything, with the header mended.
func FuzzOpen(f *testing.F) {
	fs := NewMemFS()
	d := mustOpen(f, smallOptions(fs, 1))
	if err := d.Log().Append(hs(1, 1, 0), batch(1, 1, 3, 100), true); err != nil {
		f.Fatal(err)
	}
	if err := d.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(fs.content(segmentName(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > segmentCRCAt+4 {
			sum := crcUpdate(0, b[:segmentCRCAt])
			b = append([]byte(nil), b...)
			for i := range 4 {
				b[segmentCRCAt+i] = byte(sum >> (8 * i))
			}
		}
		fs := NewMemFS()
		if err := fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		fs.Damage("data/"+segmentName(1), func([]byte) []byte { return append([]byte{}, b...) })
		if d, err := Open(smallOptions(fs, 1)); err == nil {
			d.Close()
		}
	})
}
