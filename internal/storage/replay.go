package storage

import (
	"fmt"
	"path/filepath"
)

// replay reads all segments from the first to the last and rebuilds what Append had published.
func (r *recovery) replay() error {
	first := r.segments[0]
	r.base, r.seq, r.chain = first.prev, first.seq, first.chain
	for i, s := range r.segments {
		size, err := s.file.Size()
		if err != nil {
			return fmt.Errorf("stat log segment %s: %w", s.path, err)
		}
		var next *segment
		if i+1 < len(r.segments) {
			next = r.segments[i+1]
		} else if err := s.file.DropCache(); err != nil { // what a failed sync left in memory only is not to be trusted
			return fmt.Errorf("drop cache of %s: %w", s.path, err)
		}
		if r.content, err = readWhole(s.file, r.content, size); err != nil {
			return fmt.Errorf("read log segment %s: %w", s.path, err)
		}
		if s.seq != r.seq || s.chain != r.chain {
			return damaged(s.path, 0, "log segment follows batch %d, the log has batch %d before it", s.seq, r.seq)
		}
		if err := r.replaySegment(s, next); err != nil {
			return err
		}
		if i == len(r.segments)-2 && !r.sealedAt(s, r.content[min(r.end, size):]) {
			r.unsealed = r.end
		}
	}
	return nil
}

// replaySegment reads one segment's frames; next is nil for the last one.
func (r *recovery) replaySegment(s, next *segment) error {
	b := r.content
	off := int64(segmentStart)
	for next == nil || r.seq != next.seq {
		fault := r.replayFrame(s, off)
		if fault == "" {
			r.lastFrame = off
			off = r.end
			continue
		}
		if next != nil || off == segmentStart {
			return damaged(s.path, off, "batch %d: %s, though it was durable: the log goes on after it", r.seq+1, fault)
		}
		if h, ok := parseHeader(b[min(off, int64(len(b))):], s.salt); ok && h.flags&flagSeal != 0 && h.seq == r.seq+1 {
			return damaged(filepath.Join(r.path, segmentName(s.number+1)), 0, "the log segment is missing: the one before it is sealed")
		}
		if at, seq := laterFrame(b, off, s.salt, r.seq+1); at >= 0 {
			return damaged(s.path, off, "batch %d: %s, though batch %d at offset %d proves that it was durable", r.seq+1, fault, seq, at)
		}
		if h, ok := parseHeader(b[min(off, int64(len(b))):], s.salt); ok && h.seq == r.seq+1 {
			r.dir.notes.Torn.File, r.dir.notes.Torn.Offset = s.path, off
		}
		break
	}
	r.end = off
	return nil
}

// replayFrame reads the frame at off and takes its records; fault says why it is not the next one.
func (r *recovery) replayFrame(s *segment, off int64) (fault string) {
	if off >= int64(len(r.content)) {
		return "end of file"
	}
	b := r.content[off:]
	h, ok := parseHeader(b, s.salt)
	switch {
	case !ok:
		return "no frame header"
	case h.seq != r.seq+1 || h.segment != s.number || h.cluster != r.cluster || h.chain != r.chain:
		return "frame is of another place in the log"
	case h.flags&flagSeal != 0:
		return "frame is a seal"
	case h.count > 0 && (h.first == 0 || h.first > r.lastIndex()+1):
		return "frame leaves a gap in the log"
	}
	_, chain, fault := parseFrame(b, s.salt, func(at int, rec record) {
		r.take(s, off+int64(at), rec)
	})
	if fault != "" {
		return fault
	}
	r.seq, r.chain, r.hard = h.seq, chain, h.hard
	r.end = off + int64(pad(int(h.length), sectorSize))
	return ""
}

// take places one entry. An entry at or below base replaces one that was in a segment purged since: what comes
// before it is gone, so it becomes the base itself.
func (r *recovery) take(s *segment, off int64, rec record) {
	if rec.index <= r.base.index {
		r.base, r.places = position{rec.index, rec.term}, r.places[:0]
		s.last = max(s.last, rec.index)
		return
	}
	r.placeLocked(rec, s, off, len(rec.data))
}

// laterFrame looks from off on for a frame header of this segment with a number above seq. Frames are written only
// when the one before is durable, so any such header is proof; the salt keeps other bytes from passing for one.
func laterFrame(b []byte, off int64, salt, seq uint64) (int64, uint64) {
	for ; off+frameHeaderSize <= int64(len(b)); off += sectorSize {
		if h, ok := parseHeader(b[off:], salt); ok && h.seq > seq {
			return off, h.seq
		}
	}
	return -1, 0
}

// sealedAt says whether b begins with s's seal.
func (r *recovery) sealedAt(s *segment, b []byte) bool {
	h, _, fault := parseFrame(b, s.salt, func(int, record) {})
	return fault == "" && h.flags&flagSeal != 0 && h.seq == r.seq+1 && h.chain == r.chain
}
