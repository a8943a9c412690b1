package txnlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/storage"
)

// Repair removes a batch that a crash has cut short from the end of a log, as a server does when it starts, and keeps
// the removed bytes in a file next to the log. It rejects directories with any other damage and those of a running
// server. dirs are a data directory, and the log's if it is separate.
func Repair(w io.Writer, dirs ...string) error {
	fsys := storage.OS{}
	var locks []io.Closer
	unlock := func() {
		for _, l := range locks {
			l.Close()
		}
		locks = nil
	}
	defer unlock()
	for _, dir := range dirs {
		l, err := fsys.Lock(dir)
		if err != nil {
			return fmt.Errorf("repair the log: %w; stop the server first", err)
		}
		locks = append(locks, l)
	}
	if err := storage.Describe(io.Discard, fsys, dirs...); err != nil {
		return fmt.Errorf("repair the log: only a batch that a crash has cut short can be taken off; nothing was changed: %w",
			err)
	}
	torn, err := storage.TornTail(fsys, dirs...)
	if err != nil {
		return err
	}
	if torn.File == "" {
		_, err := fmt.Fprintln(w, "the log ends with a whole batch: nothing to repair")
		return err
	}
	aside := fmt.Sprintf("%s.torn-%d", torn.File, torn.Offset)
	if err := keepAside(aside, torn.Bytes); err != nil {
		return fmt.Errorf("repair the log: keep the bytes that are cut off; nothing was changed: %w", err)
	}
	unlock()
	dir, log := dirs[0], dirs[len(dirs)-1]
	cluster, err := storage.ReadIdentity(fsys, dir, log)
	if err != nil {
		return fmt.Errorf("repair the log: %w", err)
	}
	d, err := storage.Open(storage.Options{Dir: dir, LogDir: log, ClusterID: cluster})
	if err != nil {
		return fmt.Errorf("repair the log: %w", err)
	}
	notes := d.Recovered()
	if err := d.Close(); err != nil {
		return fmt.Errorf("repair the log: %w", err)
	}
	if notes.Torn.File != torn.File || notes.Torn.Offset != torn.Offset {
		return fmt.Errorf("repair the log: it has changed meanwhile; %s holds what was there", aside)
	}
	_, err = fmt.Fprintf(w, "%s: a batch cut short at offset %d is taken off; its %d bytes are in %s\n", torn.File,
		torn.Offset, len(torn.Bytes), aside)
	return err
}

// keepAside writes a new file durably.
func keepAside(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		if have, bad := os.ReadFile(path); bad == nil && string(have) == string(b) {
			return nil // left by a repair that was interrupted
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = storage.OS{}.SyncDir(filepath.Dir(path))
	}
	return err
}
