package audit

import (
	"fmt"
	"time"
)

// Any client that reaches a server can make requests fail, as fast as it likes and at no cost, and each failure is a
// line. These lines must not push the others out of the files. So failures may fill only a part of the files: a share
// of a few sources at once, and a little more each hour. Failures beyond this are only counted, and a line reports the
// counts. Successes are always written.
const (
	failuresShare   = 8           // all failures may fill this part of all files at once, and again each day
	sourceShare     = 64          // those of one source may fill this part, and again each hour
	sourcesMax      = 10_000      // sources with a share of their own; further ones share that of all
	leftOutInterval = time.Minute // between two lines with counts
	failuresRefill  = 24 * time.Hour
	sourceRefill    = time.Hour
)

// LeftOut is the operation of a line that counts omitted failures.
const LeftOut = "leftOut"

// An allowance is a number of bytes that becomes available again over time.
type allowance struct {
	most int64 // bytes
	used int64
	at   time.Time // when used was last updated
}

// refill restores the part of the allowance for the time since the last call. The whole allowance is restored in the
// time all.
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

// source returns the allowance of a source, or nil if too many sources have one.
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

// counts returns the line that counts the failures omitted since the last such line. It returns nil if there are none,
// or if it is too early for another line and last isn't set. The line names the source with most of them.
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
