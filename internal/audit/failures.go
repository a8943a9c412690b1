package audit

import (
	"fmt"
	"time"
)

// Whoever reaches a server can make requests fail, as fast as he likes and for free, and each is a
// line. So that these lines don't push the others out of the files, failures may fill only a part of
// what is kept: a share of a few sources at once, and a little more each hour. What exceeds it is
// counted, and the counts are a line. Successes are always written.
const (
	failuresShare   = 8           // failures of all sources together may fill this part of all files, and again in a day
	sourceShare     = 64          // those of one source this part, and again in an hour
	sourcesMax      = 10_000      // sources that are told apart; further ones have the share of all alone
	leftOutInterval = time.Minute // between two lines with counts
	failuresRefill  = 24 * time.Hour
	sourceRefill    = time.Hour
)

// LeftOut is the operation of a line that counts failures for which there was no room.
const LeftOut = "leftOut"

// An allowance is a number of bytes that comes back over time.
type allowance struct {
	most int64 // bytes
	used int64
	at   time.Time // when used was last updated
}

// refill gives back what has come back since the last time; all of it does in the time all.
func (a *allowance) refill(now time.Time, all time.Duration) {
	back := int64(float64(a.most) * (float64(now.Sub(a.at)) / float64(all)))
	if back > 0 {
		a.used, a.at = max(a.used-back, 0), now
	}
}

func (a *allowance) holds(size int64) bool { return a.used+size <= a.most }

// failures decides which failures are written. The zero value writes all.
type failures struct {
	kept    int64 // bytes of all files; 0 for no limit
	all     allowance
	sources map[string]*allowance

	left    map[string]int64 // since the last line with counts, by source
	leftOut int64            // since the start
	told    time.Time        // when that line was written
}

func newFailures(kept int64) failures {
	return failures{
		kept: kept, all: allowance{most: kept / failuresShare}, sources: map[string]*allowance{}, left: map[string]int64{},
	}
}

// take reports whether a line of a source may be written, and counts it.
func (f *failures) take(source string, size int64, now time.Time) bool {
	if f.kept == 0 {
		return true
	}
	s := f.source(source, now)
	f.all.refill(now, failuresRefill)
	if s != nil {
		s.refill(now, sourceRefill)
	}
	if !f.all.holds(size) || s != nil && !s.holds(size) {
		f.leftOut++
		if _, known := f.left[source]; known || len(f.left) < sourcesMax {
			f.left[source]++
		}
		return false
	}
	f.all.used += size
	if s != nil {
		s.used += size
	}
	return true
}

// source returns what a source has used, or nil if there are too many to tell them apart.
func (f *failures) source(source string, now time.Time) *allowance {
	s := f.sources[source]
	if s != nil {
		return s
	}
	if len(f.sources) >= sourcesMax {
		for name, old := range f.sources { // any order: each is independent
			if old.refill(now, sourceRefill); old.used == 0 {
				delete(f.sources, name)
			}
		}
		if len(f.sources) >= sourcesMax {
			return nil
		}
	}
	s = &allowance{most: f.kept / sourceShare, at: now}
	f.sources[source] = s
	return s
}

// counts returns the line that counts what was left out since the last one, or nil if it isn't time
// for it or nothing was left out. It names the source of most of it.
func (f *failures) counts(now time.Time, last bool) *Entry {
	if len(f.left) == 0 || !last && now.Sub(f.told) < leftOutInterval {
		return nil
	}
	var lines, most int64
	worst := ""
	for source, n := range f.left {
		if lines += n; n > most || n == most && source < worst {
			worst, most = source, n
		}
	}
	e := &Entry{
		IP: worst, Operation: LeftOut, Result: Failure,
		Error: fmt.Sprintf("%d failures of %d addresses or networks are not in this log, %d of them from here", lines,
			len(f.left), most),
	}
	clear(f.left)
	f.told = now
	return e
}
