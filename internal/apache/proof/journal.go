//go:build unix

package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/storage"
)

// A Journal records the steps of a command that moves an ensemble, each before it begins and after it is done, on disk
// before the command continues. When the command is run again, it continues from the last record or undoes the steps.
//
// It is a file with one JSON object a line. An incomplete last line was cut short by a crash, before its step began.
type Journal struct {
	f     journalFile
	whole int64 // length of the records that are on disk
}

// A journalFile is the *os.File of a journal, whose writes are appended.
type journalFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// A Record is a line of a Journal.
type Record struct {
	At   time.Time       `json:"at"`
	Try  Try             `json:"try"`
	Step string          `json:"step"`
	Done bool            `json:"done,omitempty"` // otherwise it begins
	Data json.RawMessage `json:"data,omitempty"` // the data for continuing
}

// journalMax bounds a journal. A try writes less than 64 KiB.
const journalMax = 16 << 20

// OpenJournal opens a journal and returns its records. It is an error if another process has it open.
func OpenJournal(path string) (*Journal, []Record, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the journal %s: another process, running this command, uses it: wait for it to end (%w)",
			path, err), f.Close())
	}
	records, whole, err := readJournal(f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err = errors.Join(err, storage.OS{}.SyncDir(filepath.Dir(path))); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read the journal %s: %w", path, err), f.Close())
	}
	return &Journal{f, whole}, records, nil
}

// ReadJournal returns the records of a journal, and changes nothing; none if there is no journal.
func ReadJournal(path string) ([]Record, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	defer f.Close()
	records, _, err := readJournal(f)
	if err != nil {
		return nil, fmt.Errorf("read the journal %s: %w", path, err)
	}
	return records, nil
}

// readJournal returns the records of a journal, and the length of its whole lines.
func readJournal(r io.Reader) (records []Record, whole int64, err error) {
	b, err := io.ReadAll(io.LimitReader(r, journalMax+1))
	if err != nil {
		return nil, 0, err
	}
	if len(b) > journalMax {
		return nil, 0, fmt.Errorf("it has more than %d bytes", journalMax)
	}
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return records, whole, nil
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records, b, whole = append(records, rec), rest, whole+int64(len(line))+1
	}
}

// Begin records that a step begins. data is the data for continuing with it.
func (j *Journal) Begin(try Try, step string, data any) error {
	var b json.RawMessage
	if data != nil {
		var err error
		if b, err = json.Marshal(data); err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
	}
	return j.append(Record{At: time.Now().UTC(), Try: try, Step: step, Data: b})
}

// End records that a step is done.
func (j *Journal) End(try Try, step string) error {
	return j.append(Record{At: time.Now().UTC(), Try: try, Step: step, Done: true})
}

// append adds a record. If it can't be made durable, it is removed: the caller then undoes its work, and the next run
// must not continue from a step that never began.
func (j *Journal) append(r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	b = append(b, '\n')
	if _, err = j.f.Write(b); err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", errors.Join(err, j.f.Truncate(j.whole)))
	}
	j.whole += int64(len(b))
	return nil
}

// Close closes the journal.
func (j *Journal) Close() error { return j.f.Close() }

// States describe what a command with a journal leaves when it is ended in between.
type States struct {
	Final        string // the step from which there is no way back
	Before, Undo string // what was being done before that step, and how it is undone
	After        string // what was being done from that step on
}

// Left returns the state that a journal records, and what to do. Before the first step, no server was stopped.
func (s *States) Left(path string) string {
	past, err := ReadJournal(path)
	if err != nil {
		return err.Error()
	}
	const again = "Run the same command again, which continues"
	if len(past) == 0 {
		return "No server was stopped. Run the same command again"
	}
	switch last := past[len(past)-1]; {
	case last.Done:
		return fmt.Sprintf("No server was stopped since the last try, which has ended with the step %s (%s)", last.Step, path)
	case last.Step == s.Final:
		return fmt.Sprintf("%s (%s). %s", s.After, path, again)
	}
	return fmt.Sprintf("%s (%s). Commands of -stop may still run. %s or starts over; or %s", s.Before, path, again, s.Undo)
}
