package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A file is a sink that rotates when it is full and keeps some of the full files.
type file struct {
	path string
	most int64 // bytes
	keep int   // number of full files kept

	f    *os.File // nil if it couldn't be reopened
	size int64    // of complete lines
}

// fileMode prevents other users from reading the log.
const fileMode = 0o600

func (w *file) open() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	size, err := wholeLines(f, w.path)
	if err != nil {
		f.Close()
		return err
	}
	w.f, w.size = f, size
	return nil
}

// wholeLines returns the size of a file. If a crash or a full disk has cut its last line short, it first ends that
// line.
func wholeLines(f *os.File, path string) (int64, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 || !st.Mode().IsRegular() {
		return 0, err
	}
	r, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var last [1]byte
	if _, err := r.ReadAt(last[:], st.Size()-1); err != nil || last[0] == '\n' {
		return st.Size(), err
	}
	n, err := f.Write(newline)
	return st.Size() + int64(n), err
}

// write writes lines, and rotates the file between lines.
func (w *file) write(lines []byte) (done int, err error) {
	for done < len(lines) {
		rest := lines[done:]
		if w.f == nil {
			if err := w.open(); err != nil {
				return done, err
			}
		}
		first := bytes.IndexByte(rest, '\n') + 1
		if w.size > 0 && w.size+int64(first) > w.most {
			if err := w.rotate(); err != nil {
				return done, err
			}
			continue
		}
		n := len(rest)
		if room := w.most - w.size; int64(n) > room {
			n = max(first, bytes.LastIndexByte(rest[:max(room, 0)], '\n')+1)
		}
		got, err := w.f.Write(rest[:n])
		if err != nil {
			whole := bytes.LastIndexByte(rest[:got], '\n') + 1
			w.size += int64(whole)
			if whole < got && w.f.Truncate(w.size) != nil { // half a line stays; the next file starts with a complete line
				w.close()
			}
			return done + whole, err
		}
		w.size += int64(n)
		done += n
	}
	return done, nil
}

// rotate renames the file and the earlier full files.
func (w *file) rotate() error {
	if err := w.close(); err != nil {
		return err
	}
	name := func(i int) string {
		if i == 0 {
			return w.path
		}
		return fmt.Sprintf("%s.%d", w.path, i)
	}
	if err := os.Remove(name(w.keep)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i := w.keep - 1; i >= 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.open()
}

func (w *file) close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}
