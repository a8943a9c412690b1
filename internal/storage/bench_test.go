package storage

import (
	"path/filepath"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppend measures one synced batch on a real directory; compare with BenchmarkFloor.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(sizeName(size), func(b *testing.B) {
			o := Options{Dir: b.TempDir(), ClusterID: 1, Space: SpaceLimits{RefuseBytes: -1}}
			d := mustOpen(b, o)
			defer d.Close()
			data := make([]byte, size-frameHeaderSize-recordHeaderSize-trailerSize)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			index := uint64(1)
			h := hs(1, 1, 0)
			for b.Loop() {
				if err := d.Log().Append(h, batchOf(entry(index, 1, data)), true); err != nil {
					b.Fatal(err)
				}
				index++
			}
		})
	}
}

// BenchmarkFloor is the least the disk can do: one pwrite and one fdatasync on a file written before.
func BenchmarkFloor(b *testing.B) {
	const fileSize = 64 << 20
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(sizeName(size), func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "floor")
			if err := makeSpare(OS{}, name, fileSize); err != nil {
				b.Fatal(err)
			}
			f, err := OS{}.OpenFile(name)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			buf := make([]byte, size)
			off := int64(0)
			b.SetBytes(int64(size))
			for b.Loop() {
				if off+int64(size) > fileSize {
					off = 0
				}
				if _, err := f.WriteAt(buf, off); err != nil {
					b.Fatal(err)
				}
				if err := f.Fdatasync(); err != nil {
					b.Fatal(err)
				}
				off += int64(size)
			}
		})
	}
}

func batchOf(e *raftpb.Entry) []*raftpb.Entry { return []*raftpb.Entry{e} }

func sizeName(n int) string {
	if n == 4<<10 {
		return "4KiB"
	}
	return "64KiB"
}

// BenchmarkOpenEmpty is the start of a server that holds nothing: the first time, and each time after.
func BenchmarkOpenEmpty(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			openClose(b, b.TempDir())
		}
	})
	b.Run("again", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			openClose(b, dir)
		}
	})
}

func openClose(b *testing.B, dir string) {
	d := mustOpen(b, Options{Dir: dir, ClusterID: 1})
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}
