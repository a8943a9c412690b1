package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// NoteName is the name of a file that exists while this server must not take part in elections. It
// holds the log index beyond which an entry makes the server a member, and the first term that the
// server may take part in, which the first version didn't write. The file is in the log's
// directory: a server that loses its log loses the note too, and asks to join again. Earlier
// versions wrote it in the data directory.
const NoteName = "joining"

// ReadNote returns what the notes in dirs say; JoinedAfter is 0 if there is none.
func ReadNote(dirs ...string) (b quorum.Beginning, err error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, NoteName)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return b, fmt.Errorf("read whether this server is joining: %w", err)
		}
		var numbers [3]uint64
		fields := strings.Fields(string(text))
		if len(fields) == 0 || len(fields) > len(numbers) {
			err = errors.New("not one to three numbers")
		}
		for i := 0; i < len(fields) && err == nil; i++ {
			numbers[i], err = strconv.ParseUint(fields[i], 10, 64)
		}
		if err != nil {
			return b, fmt.Errorf("read %s: it holds %q, not a log index and a term; empty the directories %s and start again",
				path, text, strings.Join(dirs, " and "))
		}
		b.JoinedAfter, b.JoinedTerm = max(b.JoinedAfter, numbers[0], 1), max(b.JoinedTerm, numbers[1])
		b.Joined.Level = max(b.Joined.Level, uint32(numbers[2]))
	}
	return b, nil
}

// WriteNote writes b's note in dir, durably.
func WriteNote(b quorum.Beginning, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, NoteName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		level := "" // earlier versions don't know it, and read two numbers
		if b.Joined.Level >= levelProof {
			level = fmt.Sprint(b.Joined.Level)
		}
		_, err = fmt.Fprintln(f, max(b.JoinedAfter, 1), b.JoinedTerm, level)
		err = errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("note in %s that this server is joining: %w", path, err)
	}
	return nil
}

// RemoveNote removes the notes in dirs.
func RemoveNote(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		if err := os.Remove(filepath.Join(dir, NoteName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
