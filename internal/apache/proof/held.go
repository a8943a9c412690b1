package proof

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/storage"
)

// A Held keeps servers and other commands away from directories. It holds the lock that a Zooid server takes on its
// data directory when it starts. So it also detects a server that runs there already, whatever the directory contains.
type Held struct{ locks []io.Closer }

// Hold makes directories if necessary, and locks them. The kernel unlocks them when the process ends.
func Hold(dirs ...string) (*Held, error) {
	h := &Held{}
	taken := map[string]bool{}
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		if taken[dir] {
			continue
		}
		taken[dir] = true
		err := storage.OS{}.MkdirAll(dir)
		var lock io.Closer
		if err == nil {
			lock, err = storage.OS{}.Lock(dir)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w. Stop the Zooid server that uses it (systemctl disable --now zooid), or wait for the command that writes there, and try again",
				err), h.Release())
		}
		h.locks = append(h.locks, lock)
	}
	return h, nil
}

// Release unlocks the directories. Further calls do nothing.
func (h *Held) Release() (err error) {
	for _, lock := range h.locks {
		err = errors.Join(err, lock.Close())
	}
	h.locks = nil
	return err
}
