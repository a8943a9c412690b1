package files

import (
	"errors"
	"fmt"
	"os"

	"github.com/zooid-project/zooid/jute"
)

// A Tail holds what a stopped server had logged after a zxid, and how far the server's history goes. A majority of the
// tails contains everything that the ensemble has ever acknowledged. The transactions stay in their files, since they
// may exceed the memory.
type Tail struct {
	After    int64 // the zxid after which the tail begins
	Accepted int64 // the highest epoch that the server has promised to a leader
	Current  int64 // the epoch of the leader that it followed last
	Last     int64 // zxid of the last transaction that it has logged
	Count    int32 // transactions after After

	each func(visit func(record []byte) error) error // nil for none
}

// TailOf returns a tail of transactions that are in memory.
func TailOf(t Tail, records ...[]byte) *Tail {
	t.Count = int32(len(records))
	t.each = func(visit func([]byte) error) error {
		for _, r := range records {
			if err := visit(r); err != nil {
				return err
			}
		}
		return nil
	}
	return &t
}

// Each reads the files again, and calls visit for each transaction until it fails. A record is valid until visit
// returns. Each fails if the files have changed.
func (t *Tail) Each(visit func(record []byte) error) error {
	if t.each == nil {
		return nil
	}
	return t.each(visit)
}

// Has reports whether a tail has the transaction of a zxid.
func (t *Tail) Has(zxid int64) (bool, error) {
	found := errors.New("found")
	err := t.Each(func(record []byte) error {
		z, err := TxnZxid(record)
		if err == nil && z == zxid {
			return found
		}
		return err
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// TailBytesMax bounds a tail: a fast network carries that much in the two minutes that a server's stop may take, and an
// ensemble that is being stopped writes far less. A tail takes disk, not memory.
const TailBytesMax = 16 << 30

// errTailTooLarge returns the error of a tail that is larger than permitted.
func errTailTooLarge(limit int64) error {
	return fmt.Errorf("its transactions exceed %d bytes, the limit for a tail. Start the server again, let the copy catch up, and start over: the tail then begins at a later zxid",
		limit)
}

// ReadTail finds the tail in the directories of a stopped server. logDir is its dataLogDir; empty if it is the same as
// dir.
func ReadTail(dir, logDir string, after int64) (*Tail, error) {
	return readTail(dir, logDir, after, TailBytesMax)
}

func readTail(dir, logDir string, after, limit int64) (*Tail, error) {
	t := &Tail{After: after}
	var err error
	if t.Accepted, t.Current, err = ReadEpochs(dir); err != nil {
		return nil, err
	}
	_, snapshot, err := Files(dir)
	if err != nil {
		return nil, err
	}
	if logDir == "" {
		logDir = dir
	}
	if logDir, err = version2(logDir); err != nil {
		return nil, err
	}
	logs, err := list(logDir, logZxid)
	if err != nil {
		return nil, err
	}
	first := 0
	for i, f := range logs {
		if f.zxid <= after {
			first = i // it may extend beyond after
		}
	}
	logs = logs[min(first, len(logs)):]
	found, err := readLogs(logs, after, nil)
	if err != nil {
		return nil, err
	}
	if found.bytes > limit {
		return nil, fmt.Errorf("read the tail of %s after zxid %#x: %w", dir, uint64(after), errTailTooLarge(limit))
	}
	t.Last, t.Count = found.last, found.count
	t.each = func(visit func([]byte) error) error {
		again, err := readLogs(logs, after, visit)
		if err == nil && again != found {
			err = fmt.Errorf("the logs of %s changed in the meantime, so the server still runs. Stop it first", dir)
		}
		return err
	}
	if snapshot > t.Last {
		if snapshot > after {
			return nil, fmt.Errorf("read the tail of %s: the newest snapshot is at zxid %#x, but the log ends at %#x: the transactions between them came as a snapshot. Use the tail of another server",
				dir, uint64(snapshot), uint64(t.Last))
		}
		t.Last = snapshot
	}
	return t, nil
}

// logged is what logs hold after a zxid.
type logged struct {
	last  int64 // zxid
	count int32
	bytes int64 // as encoded in a tail
}

// readLogs calls visit, which may be nil, for each transaction after a zxid in the logs of a server, oldest first.
func readLogs(logs []numbered, after int64, visit func(record []byte) error) (found logged, err error) {
	for i, f := range logs {
		if err := found.read(f, i == len(logs)-1, after, visit); err != nil {
			return found, err
		}
	}
	return found, nil
}

// read goes on with one log.
func (l *logged) read(f numbered, newest bool, after int64, visit func(record []byte) error) error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer file.Close()
	var refused error // visit's, which says nothing about the log
	end, err := readLog(file, func(record []byte) error {
		zxid, err := TxnZxid(record)
		if err != nil {
			return err
		}
		if l.last = zxid; zxid <= after {
			return nil
		}
		l.count++
		l.bytes += int64(len(jute.AppendInt(nil, 0)) + len(record))
		if visit != nil {
			refused = visit(record)
		}
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case err != nil && !(errors.Is(err, errEmptyLog) && newest):
		return &DamageError{f.path, end.offset, err.Error(), doOtherServer}
	}
	return nil
}
