package storage

import (
	"fmt"
	"math/bits"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// readSpanMax bounds one read of older entries from a segment, unless a single entry is larger.
const readSpanMax = 1 << 20

// tail keeps the newest entries in memory.
type tail struct {
	budget  int
	bytes   int
	entries []*raftpb.Entry // contiguous; the last one is the log's last entry
}

// entryOverhead is the memory that an entry uses in addition to its data, in bytes.
const entryOverhead = 128

// append adds an entry. It drops the entries that the new one replaces, and the oldest ones beyond the budget.
func (t *tail) append(e *raftpb.Entry) {
	if len(t.entries) > 0 {
		first, index := t.entries[0].GetIndex(), e.GetIndex()
		if index < first || index > first+uint64(len(t.entries)) {
			t.cut(0)
		} else {
			t.cut(int(index - first))
		}
	}
	t.entries = append(t.entries, e)
	t.bytes += len(e.GetData()) + entryOverhead
	for t.bytes > t.budget && len(t.entries) > 1 {
		t.bytes -= len(t.entries[0].GetData()) + entryOverhead
		t.entries[0] = nil
		t.entries = t.entries[1:]
	}
}

// cut drops all but the first n entries.
func (t *tail) cut(n int) {
	for i := n; i < len(t.entries); i++ {
		t.bytes -= len(t.entries[i].GetData()) + entryOverhead
		t.entries[i] = nil
	}
	t.entries = t.entries[:n]
}

func (l *Log) lastIndex() uint64 { return l.base.index + uint64(len(l.places)) }

// termOf returns the term of entry i, which must be between base and the last index.
func (l *Log) termOf(i uint64) uint64 {
	if i == l.base.index {
		return l.base.term
	}
	return l.places[i-l.base.index-1].term
}

// InitialState implements raft.Storage. It returns the newest HardState, and the membership of the
// newest snapshot; the caller has to apply later changes of membership in the log.
func (l *Log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	hs := &raftpb.HardState{Term: new(l.hard.term), Vote: new(l.hard.vote), Commit: new(l.hard.commit)}
	return hs, l.snapshot.confState(), nil
}

// FirstIndex implements raft.Storage.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.base.index + 1, nil
}

// LastIndex implements raft.Storage.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lastIndex(), nil
}

// Term implements raft.Storage. It never reads the disk.
func (l *Log) Term(i uint64) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case i < l.base.index:
		return 0, raft.ErrCompacted
	case i > l.lastIndex():
		return 0, raft.ErrUnavailable
	}
	return l.termOf(i), nil
}

// Snapshot implements raft.Storage. It returns the metadata of the newest verified snapshot,
// without data; Dir.OpenSnapshot reads the content.
func (l *Log) Snapshot() (*raftpb.Snapshot, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(l.snapshot.Index), Term: new(l.snapshot.Term), ConfState: l.snapshot.confState(),
	}}, nil
}

// Entries implements raft.Storage. Entries that are no longer in memory are read from their
// segments; if one differs from what was written, the error is a DamageError.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	l.files.RLock() // until the reads are done, so that no segment read here is closed or recycled
	defer l.files.RUnlock()
	l.mu.RLock()
	if lo <= l.base.index {
		l.mu.RUnlock()
		return nil, raft.ErrCompacted
	}
	if hi > l.lastIndex()+1 || lo > hi {
		l.mu.RUnlock()
		return nil, raft.ErrUnavailable
	}
	hi = l.limit(lo, hi, maxSize)
	cached := l.lastIndex() + 1 - uint64(len(l.tail.entries)) // index of the first entry in memory
	split := min(max(cached, lo), hi)
	list := make([]*raftpb.Entry, split-lo, hi-lo)
	if hi > split {
		list = append(list, l.tail.entries[split-cached:hi-cached]...)
	}
	places := append([]place(nil), l.places[lo-l.base.index-1:split-l.base.index-1]...)
	segments := l.segments
	l.mu.RUnlock()
	if err := l.readPlaces(segments, places, lo, list); err != nil {
		return nil, err
	}
	return list, nil
}

// limit lowers hi so that the entries from lo on take at most maxSize bytes in raft's encoding, but
// keeps at least one entry.
func (l *Log) limit(lo, hi, maxSize uint64) uint64 {
	size := uint64(0)
	for i := lo; i < hi; i++ {
		p := &l.places[i-l.base.index-1]
		size += 4 + varintSize(p.term) + varintSize(i) // tags and the type
		if p.size > 0 {
			size += 1 + varintSize(uint64(p.size)) + uint64(p.size)
		}
		if size > maxSize && i > lo {
			return i
		}
	}
	return hi
}

func varintSize(v uint64) uint64 { return uint64(9*bits.Len64(v)+64) / 64 }

// readPlaces reads the entries at places into list. The first one has the index lo.
func (l *Log) readPlaces(segments []*segment, places []place, lo uint64, list []*raftpb.Entry) error {
	for i := 0; i < len(places); {
		n, from, to := span(places[i:])
		s := segments[uint64(places[i].segment)-segments[0].number]
		buf := make([]byte, to-from)
		if _, err := s.file.ReadAt(buf, from); err != nil {
			return fmt.Errorf("read entries %d to %d from %s at offset %d: %w", lo+uint64(i), lo+uint64(i+n-1), s.path, from,
				err)
		}
		for k, p := range places[i : i+n] {
			at := int64(p.at)*8 - from
			r, _, ok := parseRecord(buf[at:])
			if !ok || r.index != lo+uint64(i+k) || r.term != p.term {
				return damaged(s.path, int64(p.at)*8, "entry %d of term %d is not there", lo+uint64(i+k), p.term)
			}
			list[i+k] = r.entry()
		}
		i += n
	}
	return nil
}

// span returns how many of the places, from the first on, are contiguous in one segment, and the
// offsets where they begin and end.
func span(places []place) (n int, from, to int64) {
	from = int64(places[0].at) * 8
	for _, p := range places {
		end := int64(p.at)*8 + int64(recordHeaderSize+pad(int(p.size), 8))
		if n > 0 && (p.segment != places[0].segment || int64(p.at)*8 < to || end-from > readSpanMax) {
			break
		}
		n++
		to = end
	}
	return n, from, to
}

// entry returns a record as a raft entry, which aliases the record's data.
func (r *record) entry() *raftpb.Entry {
	e := &struct {
		raftpb.Entry
		index, term uint64
		kind        raftpb.EntryType
	}{index: r.index, term: r.term, kind: r.kind}
	e.Index, e.Term, e.Type = &e.index, &e.term, &e.kind
	if len(r.data) > 0 {
		e.Data = r.data
	}
	return &e.Entry
}
