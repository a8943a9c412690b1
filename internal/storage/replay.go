package storage

import (
	"fmt"
	"path/filepath"
	"slices"
)

// replay reads all segments from the first to the last and rebuilds the state that Append had published.
func (r *recovery) replay() error {
	first := r.segments[0]
	r.base, r.seq, r.chain = first.prev, first.seq, first.chain
	for i, s := range r.segments {
		var next *segment
		if i+1 < len(r.segments) {
			next = r.segments[i+1]
		} else if err := s.file.DropCache(); err != nil { // don't trust what a failed sync left only in memory
			return fmt.Errorf("drop cache of %s: %w", s.path, err)
		}
		if err := r.window.begin(s); err != nil {
			return err
		}
		if s.seq != r.seq || s.chain != r.chain {
			return damaged(s.path, 0, "log segment follows batch %d, the log has batch %d before it", s.seq, r.seq)
		}
		if err := r.replaySegment(s, next); err != nil {
			return err
		}
		if i == len(r.segments)-2 {
			sealed, err := r.sealed(s)
			if err != nil {
				return err
			}
			if !sealed {
				r.unsealed = r.end
			}
		}
	}
	return nil
}

// replaySegment reads one segment's frames; next is nil for the last one.
func (r *recovery) replaySegment(s, next *segment) error {
	r.lastFrame, r.end = 0, segmentStart
	for next == nil || r.seq != next.seq {
		off := r.end
		fault, err := r.replayFrame(s)
		if err != nil {
			return err
		}
		if fault == "" {
			r.lastFrame = off
			if off == segmentStart {
				r.lastFrame = 0
			}
			continue
		}
		if next != nil || off == segmentStart {
			return damaged(s.path, off, "batch %d: %s, though it was durable: the log goes on after it", r.seq+1, fault)
		}
		return r.endAt(s, fault)
	}
	return nil
}

// endAt is called when no valid frame follows the last one in the last segment. It
// determines whether the log ends there, and why.
func (r *recovery) endAt(s *segment, fault string) error {
	last, err := r.window.bytes(r.lastFrame, r.lastFrame, r.end-r.lastFrame)
	if err != nil {
		return err
	}
	r.content = slices.Clone(last)
	b, err := r.window.bytes(r.end, r.end, frameHeaderSize)
	if err != nil {
		return err
	}
	h, ok := parseHeader(b, s.salt)
	ok = ok && h.seq == r.seq+1
	if ok && h.flags&flagSeal != 0 {
		return damaged(filepath.Join(r.path, segmentName(s.number+1)), 0,
			"the log segment is missing: the one before it is sealed")
	}
	at, seq, err := r.laterFrame(s)
	if err != nil {
		return err
	}
	if at >= 0 {
		return damaged(s.path, r.end, "batch %d: %s, though batch %d at offset %d proves that it was durable", r.seq+1, fault,
			seq, at)
	}
	if ok {
		r.dir.notes.Torn.File, r.dir.notes.Torn.Offset = s.path, r.end
	}
	return nil
}

// replayFrame reads the frame at r.end and its records. If that isn't the next frame of the log, fault says why.
func (r *recovery) replayFrame(s *segment) (fault string, err error) {
	off := r.end
	if off >= r.window.size {
		return "end of file", nil
	}
	b, err := r.window.bytes(r.lastFrame, off, frameHeaderSize)
	if err != nil {
		return "", err
	}
	h, ok := parseHeader(b, s.salt)
	switch {
	case !ok:
		return "no frame header", nil
	case h.seq != r.seq+1 || h.segment != s.number || h.cluster != r.cluster || h.chain != r.chain:
		return "frame is of another place in the log", nil
	case h.flags&flagSeal != 0:
		return "frame is a seal", nil
	case h.count > 0 && (h.first == 0 || h.first > r.lastIndex()+1):
		return "frame leaves a gap in the log", nil
	}
	if b, err = r.window.bytes(r.lastFrame, off, int64(h.length)); err != nil {
		return "", err
	}
	_, chain, fault := parseFrame(b, s.salt, func(at int, rec record) {
		r.take(s, off+int64(at), rec)
	})
	if fault != "" {
		return fault, nil
	}
	r.seq, r.chain, r.hard = h.seq, chain, h.hard
	r.end = off + int64(pad(int(h.length), sectorSize))
	return "", nil
}

// take records the place of one entry. An entry at or below base replaces one whose segment has
// been purged since: the entries before it are gone, so it becomes the base itself.
func (r *recovery) take(s *segment, off int64, rec record) {
	if rec.index <= r.base.index {
		r.base, r.places = position{rec.index, rec.term}, r.places[:0]
		s.last = max(s.last, rec.index)
		return
	}
	r.placeLocked(rec, s, off, len(rec.data))
}

// laterFrame searches b from off on for a frame header of this segment with a seq above the given
// one. A frame is only written when the previous one is durable, so any such header is proof;
// because of the salt, no other bytes can be mistaken for one.
func laterFrame(b []byte, off int64, salt, seq uint64) (int64, uint64) {
	for ; off+frameHeaderSize <= int64(len(b)); off += sectorSize {
		if h, ok := parseHeader(b[off:], salt); ok && h.seq > seq {
			return off, h.seq
		}
	}
	return -1, 0
}

// laterFrame searches the last segment for such a header after its last frame.
func (r *recovery) laterFrame(s *segment) (at int64, seq uint64, err error) {
	for off := r.end; off < r.window.size; off += r.window.step {
		b, err := r.window.bytes(off, off, r.window.step)
		if err != nil {
			return 0, 0, err
		}
		if at, seq := laterFrame(b, 0, s.salt, r.seq+1); at >= 0 {
			return off + at, seq, nil
		}
	}
	return -1, 0, nil
}

// sealed reports whether s has a seal after its last frame.
func (r *recovery) sealed(s *segment) (bool, error) {
	b, err := r.window.bytes(r.end, r.end, frameHeaderSize+trailerSize)
	if err != nil {
		return false, err
	}
	h, _, fault := parseFrame(b, s.salt, func(int, record) {})
	return fault == "" && h.flags&flagSeal != 0 && h.seq == r.seq+1 && h.chain == r.chain, nil
}
