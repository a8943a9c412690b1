package storage

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// bufferKeepMax is the size of the largest batch buffer that is kept for the next Append; typical batches have 60 KB.
const bufferKeepMax = 4 << 20

// Log is the write-ahead log. It implements raft.Storage. Only one goroutine at a time may append;
// reads may run concurrently with that.
//
// Nothing in the log is ever overwritten: entries that replace a conflicting tail are appended as a
// new batch, and when the log is read, the later batch wins.
//
// Invariants, checked on every Append (a violation panics):
//
//  1. entries are contiguous, and begin at most one above the last index;
//  2. entries at or below the commit index of an earlier Append are never replaced;
//  3. terms never decrease along the log, nor does the HardState's term.
type Log struct {
	fs      FS
	path    string
	cluster uint64
	rand    io.Reader
	target  int64 // size of a segment once the log has grown
	onSync  func(time.Duration, int)
	spares  spares
	counts  counts
	wait    func() bool // Options.Wait
	writing *underWay   // the write under way
	waiting atomic.Bool // an Append waits for room

	// write is held while the log is written; it guards the fields that follow.
	write  sync.Mutex
	buf    []byte
	active *segment
	end    int64  // offset in active of the next frame
	seq    uint64 // of the last frame
	chain  uint64 // after the last frame
	// next is the segment after active, already durable, if there was no room to seal active.
	next      *segment
	nextChain uint64 // after next's first frame
	closing   bool   // Close writes the last frame: it doesn't wait for room

	// files is held shared while a segment's file is read, and exclusively to close one. It is locked before mu.
	files sync.RWMutex
	// mu guards the fields that follow; it is held only briefly, never during I/O.
	mu       sync.RWMutex
	fatal    error
	hard     hardState
	segments []*segment // by number, without a gap; the last is active
	base     position   // of the entry before the first of places
	places   []place    // of the entries from base.index+1 on
	tail     tail
	snapshot Meta // newest verified one; Index 0 if there is none
}

// place is the place of an entry: the segment's number, and the record's offset in units of 8 bytes.
type place struct {
	term    uint64
	segment uint32
	at      uint32
	size    uint32 // of the data
}

type counts struct {
	appends, bytes, syncs atomic.Uint64
}

// Append makes a HardState and entries durable, as one batch unless they are very large (see frameSizeAim). After it
// returns nil, all of them survive a crash. After an error, a crash leaves each batch completely or not at all. A nil
// hs leaves the HardState unchanged. With neither entries nor mustSync nothing is written: the HardState is then
// written with the next batch, or lost in a crash.
//
// Append blocks for one write and one fdatasync per batch, and while there is no room and Options.Wait says to wait. It
// retains entries, which must not be modified afterwards. After an error, mostly a FatalError, the log accepts nothing
// more, and the process must stop.
func (l *Log) Append(hs *raftpb.HardState, entries []*raftpb.Entry, mustSync bool) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	hard := l.hard
	if hs != nil {
		hard = hardState{hs.GetTerm(), hs.GetVote(), hs.GetCommit()}
	}
	l.checkAppend(hard, entries)
	if len(entries) == 0 && !mustSync {
		l.mu.Lock()
		l.hard = hard
		l.mu.Unlock()
		return nil
	}
	l.writing.begin()
	defer l.writing.end()
	return l.fail(l.appendBatches(hard, entries))
}

// WritingFor returns how long the write under way has taken; 0 if there is none, or if it waits for room. It never
// blocks.
func (l *Log) WritingFor() time.Duration { return l.writing.took() }

// Err returns the error that ended the log, if any.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fatal
}

// fail records err as the log's final error unless there is one already, and returns err.
func (l *Log) fail(err error) error {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.fatal == nil {
			l.fatal = err
		}
	}
	return err
}

func (l *Log) checkAppend(hard hardState, entries []*raftpb.Entry) {
	if hard.term < l.hard.term {
		panic(fmt.Sprintf("storage: log invariant 3: HardState term %d after %d", hard.term, l.hard.term))
	}
	if len(entries) == 0 {
		return
	}
	first := entries[0].GetIndex()
	if last := l.lastIndex(); first == 0 || first > last+1 {
		panic(fmt.Sprintf("storage: log invariant 1: append at %d after last index %d", first, last))
	}
	if first <= max(l.base.index, l.hard.commit) {
		panic(fmt.Sprintf("storage: log invariant 2: append at %d, committed %d", first, max(l.base.index, l.hard.commit)))
	}
	term := l.termOf(first - 1)
	for i, e := range entries {
		if e.GetIndex() != first+uint64(i) {
			panic(fmt.Sprintf("storage: log invariant 1: entry %d where %d belongs", e.GetIndex(), first+uint64(i)))
		}
		if e.GetTerm() < term {
			panic(fmt.Sprintf("storage: log invariant 3: entry %d has term %d after %d", e.GetIndex(), e.GetTerm(), term))
		}
		term = e.GetTerm()
	}
}

// appendBatches writes entries as one frame, or as several if they are large. Only the last frame
// has the new commit index, which may refer to these entries.
func (l *Log) appendBatches(hard hardState, entries []*raftpb.Entry) error {
	for frameSize(entries) > frameSizeAim && len(entries) > 1 {
		n, size := 1, recordSize(entries[0])
		for n < len(entries)-1 && size+recordSize(entries[n]) <= frameSizeAim {
			size += recordSize(entries[n])
			n++
		}
		early := hard
		early.commit = min(hard.commit, l.hard.commit)
		if err := l.appendBatch(early, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return l.appendBatch(hard, entries)
}

// appendBatch writes a frame. If there is no room, it frees some; if that isn't enough, it uses the active segment's
// margin for a batch without data, and waits with any other batch.
func (l *Log) appendBatch(hard hardState, entries []*raftpb.Entry) error {
	for {
		err := l.ample(func() error { return l.tryBatch(hard, entries, l.margin()) })
		if lacksRoom(err) && l.next == nil && !hasData(entries) {
			err = l.tryBatch(hard, entries, 0)
		}
		if !lacksRoom(err) {
			l.waiting.Store(false)
			return err
		}
		if !l.awaitRoom() {
			return err
		}
	}
}

const (
	// marginMax is how many bytes at the end of a segment are reserved for batches without data when there is no other
	// room: those that a server writes when it starts, votes, and begins a term. So a server that starts on a full disk
	// comes up and serves reads. A start takes about 2 KiB.
	marginMax = 64 << 10
	// marginShare is the share of a small segment that is reserved for them.
	marginShare = 16
)

// margin returns how many bytes of the active segment are reserved for batches without data.
func (l *Log) margin() int64 {
	return min(int64(l.active.size)/marginShare, marginMax) / sectorSize * sectorSize
}

// hasData reports whether one of the entries has data. The others begin a term.
func hasData(entries []*raftpb.Entry) bool {
	return slices.ContainsFunc(entries, func(e *raftpb.Entry) bool { return len(e.GetData()) > 0 })
}

// tryBatch writes a frame. If the frame doesn't fit in the active segment without its last margin bytes, it first rolls
// to the next segment. After a RoomError nothing was appended, and the same can be tried again.
func (l *Log) tryBatch(hard hardState, entries []*raftpb.Entry, margin int64) error {
	need := int64(pad(frameSize(entries), sectorSize))
	if need > frameSizeMax {
		return fmt.Errorf("append to the log: entry %d takes %d bytes; at most %d", entries[0].GetIndex(), need, frameSizeMax)
	}
	if err := l.spares.failed(); err != nil {
		return err
	}
	// One sector stays free for the seal. A frame larger than a segment gets a segment of its own, which grows.
	if l.next != nil || l.end+need+sectorSize+margin > int64(l.active.size) && l.end > segmentStart+sectorSize {
		if err := l.roll(); err != nil {
			return err
		}
	}
	off := l.end
	if err := l.writeFrame(frameHeader{hard: hard}, entries); err != nil {
		return err
	}
	l.counts.appends.Add(1)
	l.counts.bytes.Add(uint64(l.end - off))
	l.publish(hard, entries, off)
	if l.end > int64(l.active.size)/2 {
		l.spares.makeAhead(l.nextSize())
	}
	return nil
}

// writeFrame writes one frame at the end of the active segment and makes it durable.
func (l *Log) writeFrame(h frameHeader, entries []*raftpb.Entry) error {
	s := l.active
	h.seq, h.segment, h.cluster, h.chain = l.seq+1, s.number, l.cluster, l.chain
	buf, chain := appendFrame(l.buf[:0], &h, s.salt, entries)
	end := l.end + int64(len(buf))
	// Pad with zeros to the end of the page: a page written in part would first have to be read from the disk.
	if full := int64(pad(int(end), pageSize)); full <= int64(s.size) {
		buf = appendZeros(buf, int(full-end))
	}
	if cap(buf) <= bufferKeepMax {
		l.buf = buf
	}
	if _, err := s.file.WriteAt(buf, l.end); err != nil {
		return failure("write", s.path, err)
	}
	if err := l.sync(s, len(buf)); err != nil {
		return err
	}
	l.end, l.seq, l.chain = end, h.seq, chain
	return nil
}

func (l *Log) sync(s *segment, bytes int) error {
	var start time.Time
	if l.onSync != nil {
		start = time.Now()
	}
	if err := s.file.Fdatasync(); err != nil {
		return &FatalError{"fdatasync", s.path, err}
	}
	l.counts.syncs.Add(1)
	if l.onSync != nil {
		l.onSync(time.Since(start), bytes)
	}
	return nil
}

// publish makes a durable batch, at off in the active segment, visible to readers.
func (l *Log) publish(hard hardState, entries []*raftpb.Entry, off int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hard = hard
	off += frameHeaderSize
	for _, e := range entries {
		size := len(e.GetData())
		l.placeLocked(record{index: e.GetIndex(), term: e.GetTerm()}, l.active, off, size)
		l.tail.append(e)
		off += int64(recordHeaderSize + pad(size, 8))
	}
}

// placeLocked records the place of an entry. The entries from its index on are replaced.
func (l *Log) placeLocked(r record, s *segment, off int64, size int) {
	l.places = append(l.places[:r.index-l.base.index-1],
		place{term: r.term, segment: uint32(s.number), at: uint32(off / 8), size: uint32(size)})
	s.last = max(s.last, r.index)
}

// roll makes the next segment the active one. The old segment is sealed once the new one is
// durable: so a log whose last segment is sealed is known to be incomplete.
//
// Sealing may lack room where overwriting needs some. Then the new segment stays, as next, and another attempt only
// seals: a crash in between leaves the same state as a crash before the seal.
func (l *Log) roll() error {
	if l.next == nil {
		spare, err := l.spares.take(l.nextSize(), l.firstSize())
		if err != nil {
			return err
		}
		s, chain, err := l.nextSegment(spare, 0, position{l.lastIndex(), l.termOf(l.lastIndex())}, l.hard)
		if err != nil {
			return err
		}
		l.next, l.nextChain = s, chain
		if err := syncDir(l.fs, l.path); err != nil {
			return err
		}
	}
	if err := l.writeFrame(frameHeader{hard: l.hard, flags: flagSeal}, nil); err != nil {
		return err
	}
	l.activate(l.next, l.nextChain)
	l.next = nil
	return nil
}

// nextSegment turns a spare into the segment after the active one; its name is not durable yet.
func (l *Log) nextSegment(spare string, flags uint32, prev position, hard hardState) (*segment, uint64, error) {
	salt, err := newSalt(l.rand)
	if err != nil {
		return nil, 0, err
	}
	h := segmentHeader{flags: flags, cluster: l.cluster, number: 1, salt: salt, prev: prev, seq: l.seq, chain: l.chain}
	if l.active != nil {
		h.number = l.active.number + 1
	}
	return l.newSegment(spare, h, hard)
}

// activate makes s, which already has its first frame, the active segment.
func (l *Log) activate(s *segment, chain uint64) {
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	l.active, l.end = s, segmentStart+sectorSize
	l.seq, l.chain = s.seq+1, chain
}

// nextSize returns the size of the next segment. Segments grow from firstSegmentSize up, so that an
// empty server stays small and starts fast.
func (l *Log) nextSize() int64 {
	if l.active == nil {
		return l.firstSize()
	}
	return min(max(2*int64(l.active.size), l.firstSize()), l.target)
}

func (l *Log) firstSize() int64 { return min(firstSegmentSize, l.target) }

// Stats are counters since Open.
type Stats struct {
	Appends     uint64 // batches written
	AppendBytes uint64 // their bytes on disk
	Syncs       uint64 // fdatasync calls on segments
	Segments    int    // files of the log now
	CacheBytes  int    // of entries held in memory now
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return Stats{
		Appends: l.counts.appends.Load(), AppendBytes: l.counts.bytes.Load(), Syncs: l.counts.syncs.Load(),
		Segments: len(l.segments), CacheBytes: l.tail.bytes,
	}
}
