package apachefiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The files in which a server of an ensemble keeps the epoch that it promised to follow and
// the one that it follows. A server alone has none.
const (
	acceptedEpoch = "acceptedEpoch"
	currentEpoch  = "currentEpoch"
)

// epochFileMax bounds a file that holds one number.
const epochFileMax = 64

// epochs reads the highest epoch that the server knows of.
func (l *loader) epochs() error {
	for _, name := range []string{acceptedEpoch, currentEpoch} {
		path := filepath.Join(l.dir, name)
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && st.Size() > epochFileMax {
			return &DamageError{path, epochFileMax, "it holds more than a number", doEpoch}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read an epoch: %w", err)
		}
		epoch, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil || epoch < 0 || epoch > EpochMax {
			return &DamageError{path, 0, fmt.Sprintf("want an epoch, a decimal number of at most %d, found %q", int64(EpochMax), b), doEpoch}
		}
		l.report.Epoch = max(l.report.Epoch, epoch)
	}
	return nil
}

// EpochMax is the highest epoch that leaves room for those of the next elections.
const EpochMax = 1<<31 - 1<<16

const doEpoch = "Take the data directory of another server of the ensemble, or write the epoch of the last zxid (its upper 32 bits) there"
