package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// ErrTailLost is returned if the log was purged before a Tail had read it, or was replaced by another log.
var ErrTailLost = errors.New("the log goes on elsewhere: what comes next was removed before it was read")

// A Tail reads the log of a data directory while a server writes it, batch by batch, without
// changing or locking anything. The batches may not be durable yet.
type Tail struct {
	fs   FS
	dir  string
	file File // of the current segment; nil before the first one
	head segmentHeader
	off  int64 // of the next frame
	end  segmentEnd
	step LogStep
	buf  []byte
}

// NewTail returns a Tail that begins with the oldest segment. dir is the log's directory.
func NewTail(fsys FS, dir string) *Tail {
	return &Tail{fs: fsys, dir: dir}
}

// Close closes the current file.
func (t *Tail) Close() error {
	if f := t.file; f != nil {
		t.file = nil
		return f.Close()
	}
	return nil
}

// Read calls visit for each batch, and for the beginning of each segment, that it has not read yet. It returns at the
// first batch that isn't complete, perhaps because it is being written; the next call continues there. If visit returns
// an error, Read stops, and the next call continues after visit's batch. After any other error the Tail is unusable.
func (t *Tail) Read(visit func(LogStep) error) error {
	for {
		whole, err := t.frame()
		if err == nil && whole {
			err = visit(t.step)
		}
		if err == nil && !whole {
			var next bool
			if next, err = t.roll(); err == nil && !next {
				return nil
			}
			if err == nil {
				err = visit(t.step)
			}
		}
		if err != nil {
			return fmt.Errorf("read the log in %s: %w", t.dir, err)
		}
	}
}

// frame reads the next frame into step. It returns false if the frame doesn't exist yet, or isn't complete.
func (t *Tail) frame() (whole bool, err error) {
	if t.file == nil {
		return false, nil
	}
	size, err := t.file.Size()
	if err != nil || t.off+frameHeaderSize > size {
		return false, err
	}
	if err := t.read(frameHeaderSize); err != nil {
		return false, err
	}
	h, ok := parseHeader(t.buf, t.head.salt)
	if !ok || h.seq != t.end.seq+1 || h.chain != t.end.chain || h.flags&flagSeal != 0 || int64(h.length) > size-t.off ||
		h.length > frameSizeMax {
		return false, nil
	}
	if err := t.read(int(h.length)); err != nil {
		return false, err
	}
	t.step.Begins, t.step.Reset, t.step.Entries = false, false, t.step.Entries[:0]
	_, chain, fault := parseFrame(t.buf, t.head.salt, func(_ int, r record) {
		t.step.Entries = append(t.step.Entries, LoggedEntry{r.index, r.term, r.kind != raftpb.EntryNormal, r.data})
	})
	if fault != "" {
		return false, nil
	}
	t.step.Committed = max(t.step.Committed, h.hard.commit)
	t.end.seq, t.end.chain = h.seq, chain
	t.off += int64(pad(int(h.length), sectorSize))
	return true, nil
}

func (t *Tail) read(n int) error {
	t.buf = slices.Grow(t.buf[:0], n)[:n]
	return readFull(t.file, t.buf, t.off)
}

// roll continues with the next segment, if there is one.
func (t *Tail) roll() (next bool, err error) {
	names, err := t.fs.ReadDir(t.dir)
	if err != nil {
		return false, err
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := numbered(name, segmentSuffix); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	there := slices.Contains(numbers, t.end.number)
	at := slices.IndexFunc(numbers, func(n uint64) bool { return n > t.end.number })
	switch {
	case at < 0 && (there || t.file == nil):
		return false, nil
	case at < 0 || t.file != nil && numbers[at] != t.end.number+1:
		return false, ErrTailLost
	}
	return t.open(numbers[at], there)
}

// open opens a segment, which must continue the previous one. more says that the previous segment
// still exists, and may have new batches.
func (t *Tail) open(number uint64, more bool) (bool, error) {
	f, err := t.fs.OpenRead(filepath.Join(t.dir, segmentName(number)))
	if err != nil {
		return false, err
	}
	first := make([]byte, sectorSize)
	err = readFull(f, first, 0)
	h, wrong := parseSegmentHeader(segmentName(number), first)
	reset := h.flags&flagReset != 0
	switch {
	case err != nil:
	case wrong != nil || h.number != number:
		err = ErrTailLost
	case t.file == nil || reset || h.seq == t.end.seq && h.chain == t.end.chain:
	case more && h.seq > t.end.seq:
		return false, f.Close()
	default:
		err = ErrTailLost
	}
	if err != nil {
		return false, errors.Join(err, f.Close())
	}
	err = t.Close()
	t.file, t.head, t.off = f, h, segmentStart
	t.end = segmentEnd{number: number, seq: h.seq, chain: h.chain}
	t.step = LogStep{Cluster: h.cluster, After: h.prev.index, Begins: true, Reset: reset, Committed: t.step.Committed}
	return true, err
}
