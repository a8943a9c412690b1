package storage

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Snapshot is an open snapshot file. Its methods may be called concurrently. It stays readable when
// Purge removes the file.
type Snapshot struct {
	Meta
	path   string
	file   File
	size   int64
	raw    int64
	chunks []chunkPlace
}

// OpenSnapshot opens the snapshot at a raft index, or the newest verified one if index is 0. The
// error is fs.ErrNotExist if there is none.
func (d *Dir) OpenSnapshot(index uint64) (*Snapshot, error) {
	if index == 0 {
		d.log.mu.RLock()
		index = d.log.snapshot.Index
		d.log.mu.RUnlock()
	}
	if index == 0 {
		return nil, fmt.Errorf("open snapshot in %s: there is none: %w", d.path, fs.ErrNotExist)
	}
	return openSnapshot(d.fs, d.snapshotPath(index))
}

func openSnapshot(fsys FS, path string) (*Snapshot, error) {
	f, err := fsys.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	layout, err := scanSnapshot(f, path, false)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Snapshot{
		Meta: layout.meta, path: path, file: f, size: int64(layout.footer.length),
		raw: int64(layout.footer.raw), chunks: layout.chunks,
	}, nil
}

// Chunks returns the number of chunks.
func (s *Snapshot) Chunks() int { return len(s.chunks) }

// Size returns the file's length, the number of bytes that a peer receives.
func (s *Snapshot) Size() int64 { return s.size }

// ReadAt reads the bytes of the file, for sending them to a peer, from any offset.
func (s *Snapshot) ReadAt(p []byte, off int64) (int, error) { return s.file.ReadAt(p, off) }

// Close closes the file.
func (s *Snapshot) Close() error { return s.file.Close() }

// Load verifies and decompresses all chunks and passes each to take, in order. take returns memory for the next chunk:
// the chunk's if take no longer needs it, or nil. Load stops at the first error.
func (s *Snapshot) Load(take func(chunk []byte) (memory []byte, err error)) error {
	var stored, raw []byte
	for n := range s.chunks {
		var err error
		if stored, raw, err = s.chunk(n, stored, raw); err != nil {
			return err
		}
		if raw, err = take(raw); err != nil {
			return err
		}
	}
	return nil
}

// chunk reads and decompresses chunk n, using the two buffers, and returns these, perhaps grown.
func (s *Snapshot) chunk(n int, stored, raw []byte) (_, _ []byte, err error) {
	c := s.chunks[n]
	if cap(stored) < int(c.stored) {
		stored = make([]byte, c.stored)
	}
	stored = stored[:c.stored]
	if err := readFull(s.file, stored, c.off); err != nil {
		return nil, nil, fmt.Errorf("read %s at offset %d: %w", s.path, c.off, err)
	}
	if crcUpdate(0, stored) != c.crc {
		return nil, nil, damaged(s.path, c.off, "checksum of chunk %d wrong", n)
	}
	if raw, err = c.decompress(raw, stored); err != nil || len(raw) != int(c.raw) {
		return nil, nil, damaged(s.path, c.off, "chunk %d does not decompress to %d bytes (%v)", n, c.raw, err)
	}
	return stored, raw, nil
}

// decompress decompresses stored into the memory of raw if that is large enough. A forged chunk
// can't make it allocate more than ChunkSizeMax.
func (c *chunkPlace) decompress(raw, stored []byte) ([]byte, error) {
	if c.zstd {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(ChunkSizeMax))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(stored, raw[:0])
	}
	if size, err := s2.DecodedLen(stored); err != nil || size != int(c.raw) {
		return nil, fmt.Errorf("it says that they are %d, %v", size, err)
	}
	return s2.Decode(raw[:cap(raw)], stored)
}

// readFull reads exactly len(p) bytes at off.
func readFull(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// PeekSnapshot opens the newest snapshot of a data directory that need not be open, so that it can
// be read while Open verifies everything. Open may reject that snapshot: its content counts only
// if NewestSnapshot then returns the same Meta. The error is fs.ErrNotExist if there is none.
func PeekSnapshot(fsys FS, dir string) (*Snapshot, error) {
	all, err := SnapshotIndexes(fsys, dir)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("open snapshot in %s: there is none: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return PeekSnapshotAt(fsys, dir, all[len(all)-1])
}

// NewestSnapshot returns the Meta of the newest verified snapshot; ok is false if there is none.
func (d *Dir) NewestSnapshot() (meta Meta, ok bool) {
	d.log.mu.RLock()
	defer d.log.mu.RUnlock()
	return d.log.snapshot, d.log.snapshot.Index != 0
}
