package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The files in which a server of an ensemble stores the epoch that it has promised to follow and the epoch that it
// follows. A standalone server has neither.
const (
	acceptedEpoch = "acceptedEpoch"
	currentEpoch  = "currentEpoch"
)

// epochFileMax bounds a file that holds a single number.
const epochFileMax = 64

// epochs reads the epochs and records the highest in the report.
func (l *loader) epochs() error {
	accepted, current, err := readEpochs(l.dir)
	l.report.Epoch = max(l.report.Epoch, accepted, current)
	return err
}

// ReadEpochs returns the epochs in a dataDir; 0 for a missing file.
func ReadEpochs(dir string) (accepted, current int64, err error) {
	if dir, err = version2(dir); err != nil {
		return 0, 0, err
	}
	return readEpochs(dir)
}

func readEpochs(dir string) (accepted, current int64, err error) {
	for _, file := range []struct {
		name string
		to   *int64
	}{{acceptedEpoch, &accepted}, {currentEpoch, &current}} {
		path := filepath.Join(dir, file.name)
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && st.Size() > epochFileMax {
			return 0, 0, &DamageError{path, epochFileMax, "it contains more than a number", doEpoch}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return 0, 0, fmt.Errorf("read an epoch: %w", err)
		}
		*file.to, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil || *file.to < 0 || *file.to > EpochMax {
			return 0, 0, &DamageError{
				path, 0, fmt.Sprintf("want an epoch, a decimal number of at most %d, found %q", int64(EpochMax), b), doEpoch,
			}
		}
	}
	return accepted, current, nil
}

// WriteEpochs writes both epochs into a dataDir, each file atomically.
func WriteEpochs(dir string, accepted, current int64) error {
	for _, file := range []struct {
		name  string
		epoch int64
	}{{acceptedEpoch, accepted}, {currentEpoch, current}} {
		path := filepath.Join(dir, Version2, file.name)
		next := path + ".tmp"
		if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write an epoch: %w", err)
		}
		err := writeFile(next, func(w io.Writer) error {
			_, err := io.WriteString(w, strconv.FormatInt(file.epoch, 10))
			return err
		})
		if err == nil {
			err = os.Rename(next, path)
		}
		if err != nil {
			return fmt.Errorf("write an epoch: %w", err)
		}
	}
	return syncDir(filepath.Join(dir, Version2))
}

// EpochMax is the highest epoch that leaves room for the epochs of later elections.
const EpochMax = 1<<31 - 1<<16

const doEpoch = "Use the data directory of another server of the ensemble, or write the last zxid's epoch (its upper 32 bits) to this file"
