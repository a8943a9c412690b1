package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"unsafe"
)

const (
	sparePrefix = "spare-"
	tmpSuffix   = ".tmp"

	// sparesMax bounds the purged segments that are kept for reuse: one for the next segment, and one
	// for a burst that outruns the purge.
	sparesMax = 2
	// zeroStep is how much of a spare is written at a time. The disk must have received it before it gets more: the
	// log's own write and sync wait for everything that was sent to the disk before them.
	zeroStep = writeOutStep
)

// spares manages the files that become segments. All their blocks have been written before, so that an fdatasync has no
// metadata to journal. Their content has no meaning.
type spares struct {
	fs      FS
	path    string
	spawn   func(func())
	reserve func() bool // releases the reserved space; reports whether there was any
	most    int64       // size of the largest file worth keeping: that of a full-size segment

	mu      sync.Mutex
	ready   []string
	made    int           // number of the next spare's name
	making  chan struct{} // not nil while a spare is being made; closed when that is done
	fault   error         // why the last spare could not be made
	wanted  int64         // after a lack of room: size of the spare to try next; else 0
	least   int64         // no smaller one shows that there is room
	frugal  bool          // there is hardly any room: no spares are made or kept, and a roll makes a small segment
	stopped bool
}

// adopt takes over the spares of an earlier process. It removes those larger than this disk's
// segments may be, and those beyond sparesMax.
func (s *spares) adopt(names []string) error {
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(name, sparePrefix+"%d", &n); err != nil {
			continue
		}
		s.made = max(s.made, n+1)
		path := filepath.Join(s.path, name)
		if len(s.ready) < sparesMax && s.fits(path) {
			s.ready = append(s.ready, path)
			continue
		}
		if err := s.fs.Remove(path); err != nil {
			return &FatalError{"remove", path, err}
		}
	}
	return nil
}

// fits reports whether a file is no larger than a segment may be.
func (s *spares) fits(path string) bool {
	size, err := fileSize(s.fs, path)
	return err == nil && size <= s.most
}

// makeAhead starts making a spare of the given size unless there is one or one is being made.
func (s *spares) makeAhead(size int64) {
	s.mu.Lock()
	if s.stopped || s.frugal || s.making != nil || len(s.ready) > 0 || s.fault != nil {
		s.mu.Unlock()
		return
	}
	work := s.beginLocked(size)
	s.mu.Unlock()
	s.spawn(work)
}

// beginLocked returns the work of making a spare in the background.
func (s *spares) beginLocked(size int64) (work func()) {
	done := make(chan struct{})
	s.making = done
	name := s.nameLocked()
	return func() {
		err := makeSpare(s.fs, name, size)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fault = err; lacksRoom(err) {
			s.lackedLocked(size)
		}
		if err == nil {
			s.wanted = 0
			s.ready = append(s.ready, name)
		}
		s.making = nil
		close(done)
	}
}

// lackedLocked records that there was no room for a spare of a size. The next ones that are tried are smaller, down to
// a quarter: a quota that statfs doesn't show may be too small for the segments that suit the disk.
func (s *spares) lackedLocked(size int64) {
	if s.wanted == 0 {
		s.least = max(size/4, min(size, firstSegmentSize))
	}
	s.wanted = max(size/2/sectorSize*sectorSize, s.least)
}

// lacking reports whether the last attempt to make the next spare found no room. If so, lacking tries again in the
// background.
func (s *spares) lacking() bool {
	s.mu.Lock()
	lacks := s.wanted > 0
	var work func()
	if lacks && s.making == nil && !s.stopped {
		work = s.beginLocked(s.wanted)
	}
	s.mu.Unlock()
	if work != nil {
		s.spawn(work)
	}
	return lacks
}

func (s *spares) nameLocked() string {
	name := filepath.Join(s.path, fmt.Sprintf("%s%d", sparePrefix, s.made))
	s.made++
	return name
}

// take returns the path of a spare. It makes one if there is none, of size least if there is hardly any room.
func (s *spares) take(size, least int64) (string, error) {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.ready); n > 0 {
		name := s.ready[0]
		s.ready = s.ready[1:]
		return name, nil
	}
	if s.fault != nil && !lacksRoom(s.fault) {
		return "", s.fault
	}
	if s.frugal {
		size = min(size, least)
	}
	name := s.nameLocked()
	if err := makeSpare(s.fs, name, size); err != nil {
		if lacksRoom(err) {
			s.lackedLocked(size)
		}
		return "", err
	}
	return name, nil
}

// spoiled keeps a spare, returned by take, that could not become a segment because of err. It returns err.
func (s *spares) spoiled(name string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append([]string{name}, s.ready...)
	return err
}

// giveUp removes all spares but keep, and reports whether it removed any.
func (s *spares) giveUp(keep int) (bool, error) {
	s.mu.Lock()
	keep = min(len(s.ready), keep)
	names := s.ready[keep:]
	s.ready = s.ready[:keep:keep]
	s.mu.Unlock()
	for _, name := range names {
		if err := s.fs.Remove(name); err != nil {
			return true, &FatalError{"remove", name, err}
		}
	}
	return len(names) > 0, nil
}

// save sets whether the disk is so full that spares should be neither made nor kept.
func (s *spares) save(on bool) {
	s.mu.Lock()
	s.frugal = on
	s.mu.Unlock()
}

// wait returns when no spare is being made.
func (s *spares) wait() {
	s.mu.Lock()
	making := s.making
	s.mu.Unlock()
	if making != nil {
		<-making
	}
}

// stop waits for background work and prevents more.
func (s *spares) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.wait()
}

// failed returns the error because of which the last spare could not be made, unless the disk was full. Nothing
// depended on that file, but a disk that fails one write can't be trusted with the next.
func (s *spares) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lacksRoom(s.fault) {
		return nil
	}
	return s.fault
}

// retire keeps a purged segment's file as a spare, or removes it if there are enough spares, it is too small or it
// can't be overwritten in place. Where there is hardly any room, a spare of any size is kept, so that the next segment
// needs no room. The new name is durable before the file can be written again: a crash must not leave new content under
// the old name.
//
// mu is not held during the disk operations, because an Append needs it.
func (s *spares) retire(path string, size, wanted int64, inPlace bool) error {
	name := ""
	s.mu.Lock()
	switch {
	case size > s.most || !inPlace:
	case s.frugal && len(s.ready) == 0, !s.frugal && len(s.ready) < sparesMax && size >= wanted:
		name = s.nameLocked()
	}
	s.mu.Unlock()
	err := error(nil)
	if name != "" {
		err = s.fs.Rename(path, name)
	}
	if name == "" || NoRoom(err) {
		return removeFile(s.fs, path)
	}
	if err != nil {
		return &FatalError{"rename", path, err}
	}
	if err := syncDir(s.fs, s.path); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = append(s.ready, name)
	s.mu.Unlock()
	return nil
}

// makeSpare creates a file of zeros. They are actually written: if the space were only reserved,
// each later fdatasync would cost a journal commit.
func makeSpare(fs FS, name string, size int64) error {
	tmp := name + tmpSuffix
	err := writeZeros(fs, tmp, size)
	if err == nil {
		if err = fs.Rename(tmp, name); err != nil {
			err = failure("rename", tmp, err)
		}
	}
	if !lacksRoom(err) {
		return err
	}
	// If no inode was left there is no file. If it can't be removed, the next start removes it.
	fs.Remove(tmp)
	return err
}

func writeZeros(fs FS, name string, size int64) (err error) {
	f, err := fs.Create(name)
	if err != nil {
		return failure("create", name, err)
	}
	defer f.Close()
	f.InPlace(true)
	if err := f.Allocate(size); err != nil {
		return failure("allocate", name, err)
	}
	zeros := pageAligned(int(min(size, zeroStep)))
	direct := size%pageSize == 0 && f.Direct(true)
	for off := int64(0); off < size; off += int64(len(zeros)) {
		piece := zeros[:min(int64(len(zeros)), size-off)]
		_, err := f.WriteAt(piece, off)
		if direct && errors.Is(err, syscall.EINVAL) { // the disk requires more than whole pages
			direct = f.Direct(false)
			_, err = f.WriteAt(piece, off)
		}
		if err != nil {
			return failure("write", name, err)
		}
		if direct {
			continue // the disk has received it already
		}
		if err := f.WriteOut(off, int64(len(piece))); err != nil {
			return failure("write out", name, err)
		}
	}
	if err := f.Fdatasync(); err != nil {
		return failure("fdatasync", name, err)
	}
	return nil
}

// pageAligned returns n zero bytes that begin at a page boundary.
func pageAligned(n int) []byte {
	b := make([]byte, n+pageSize)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (pageSize - 1)
	return b[skip : skip+n]
}
