package storage

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// A process may run out of file descriptors, mostly because of connections. That must not end the
// log: nothing is lost when a file can't be opened. So a few descriptors are kept in reserve, and
// released one by one when opening a file needs them.
const (
	// descriptorsKept is the number of descriptors in reserve, for a new segment, a snapshot, and their directories.
	descriptorsKept = 8
	// descriptorPatience is how long an open waits for a descriptor if other parts of the process take
	// the released ones.
	descriptorPatience = 10 * time.Second
	descriptorPause    = 10 * time.Millisecond
)

// descriptors is the reserve of the process, because the limit is the process's too.
var descriptors reservedDescriptors

type reservedDescriptors struct {
	mu   sync.Mutex
	kept []*os.File
}

// fill opens the missing descriptors, as far as possible.
func (r *reservedDescriptors) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.kept) < descriptorsKept {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		r.kept = append(r.kept, f)
	}
}

// give closes one descriptor; it returns false if there is none.
func (r *reservedDescriptors) give() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == 0 {
		return false
	}
	last := len(r.kept) - 1
	r.kept[last].Close()
	r.kept = r.kept[:last]
	return true
}

// open opens a file, using the reserve if no other descriptor is left.
func (r *reservedDescriptors) open(name string, flag int) (*os.File, error) {
	r.fill()
	f, err := os.OpenFile(name, flag, fileMode)
	for end := time.Now().Add(descriptorPatience); noDescriptors(err) && time.Now().Before(end); {
		if !r.give() {
			time.Sleep(descriptorPause)
		}
		f, err = os.OpenFile(name, flag, fileMode)
	}
	return f, err
}

// noDescriptors reports whether err says that the process or the machine has no file descriptor left.
func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
