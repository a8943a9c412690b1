package apachefiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A Tail holds what a stopped server had logged after a zxid, and how far the server's history goes. A majority of the
// tails contains everything that the ensemble has ever acknowledged.
type Tail struct {
	After    int64 // the zxid after which the tail begins
	Accepted int64 // the highest epoch that the server has promised to a leader
	Current  int64 // the epoch of the leader that it followed last
	Last     int64 // zxid of the last transaction that it has logged
	Records  [][]byte
}

// Limits of a tail, which holds what an ensemble writes while it is being stopped.
const (
	tailRecordsMax  = 1 << 20
	TailBytesMax    = 64 << 20 // including everything that a program prints before the tail
	tailRecordBytes = 4        // at least
)

// ReadTail reads the tail from the directories of a stopped server. logDir is its dataLogDir; empty if it is the same
// as dir.
func ReadTail(dir, logDir string, after int64) (*Tail, error) {
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
	for i, f := range logs[min(first, len(logs)):] {
		if err := t.read(f, first+i == len(logs)-1); err != nil {
			return nil, err
		}
	}
	if snapshot > t.Last {
		if snapshot > after {
			return nil, fmt.Errorf("read the tail of %s: the newest snapshot is of zxid %#x, the log ends at %#x: the transactions between them came as a snapshot. Take the tail of another server",
				dir, uint64(snapshot), uint64(t.Last))
		}
		t.Last = snapshot
	}
	return t, nil
}

// read adds the records of one log.
func (t *Tail) read(f numbered, newest bool) error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer file.Close()
	size := 0
	for _, r := range t.Records {
		size += len(r)
	}
	end, err := readLog(file, func(record []byte) error {
		zxid, err := TxnZxid(record)
		if err != nil {
			return err
		}
		if t.Last = zxid; zxid <= t.After {
			return nil
		}
		if size += len(record); size > TailBytesMax/2 || len(t.Records) == tailRecordsMax {
			return errors.New("more follows zxid " + fmt.Sprintf("%#x", uint64(t.After)) +
				" than an ensemble writes while it is stopped")
		}
		t.Records = append(t.Records, bytes.Clone(record))
		return nil
	})
	if err != nil && !(errors.Is(err, errEmptyLog) && newest) {
		return &DamageError{f.path, end.offset, err.Error(), doOtherServer}
	}
	return nil
}

// tailMagic begins a tail. What a program prints before it is ignored.
const tailMagic = "zooid tail 1\n"

// A tail is encoded as
//
//	"zooid tail 1\n" | long after | long accepted | long current | long last | int count | count * buffer record | int CRC-32 of all before
//
// Append appends this encoding.
func (t *Tail) Append(b []byte) []byte {
	begin := len(b)
	b = append(b, tailMagic...)
	for _, v := range [...]int64{t.After, t.Accepted, t.Current, t.Last} {
		b = jute.AppendLong(b, v)
	}
	b = jute.AppendInt(b, int32(len(t.Records)))
	for _, r := range t.Records {
		b = jute.AppendBuffer(b, r)
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[begin:]))
}

// ErrNoTail says that there is no complete tail.
var ErrNoTail = errors.New("there is no whole tail in it, as zooid migrate tail prints it")

// ParseTail finds a tail in a program's output.
func ParseTail(r io.Reader) (*Tail, error) {
	b, err := io.ReadAll(io.LimitReader(r, TailBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(b) > TailBytesMax {
		return nil, fmt.Errorf("more than %d bytes", TailBytesMax)
	}
	begin := bytes.Index(b, []byte(tailMagic))
	if begin < 0 {
		return nil, ErrNoTail
	}
	b = b[begin:]
	var d jute.Decoder
	d.Reset(b[len(tailMagic):])
	t := &Tail{After: d.Long(), Accepted: d.Long(), Current: d.Long(), Last: d.Long()}
	n := d.Count(tailRecordBytes)
	if n > tailRecordsMax {
		return nil, fmt.Errorf("a tail of %d transactions; at most %d", n, tailRecordsMax)
	}
	for range max(n, 0) {
		t.Records = append(t.Records, slices.Clone(d.Buffer()))
		if d.Err() != nil {
			return nil, ErrNoTail
		}
	}
	whole := len(tailMagic) + d.Offset()
	sum := uint32(d.Int())
	if d.Err() != nil || n < 0 || sum != crc32.ChecksumIEEE(b[:whole]) {
		return nil, ErrNoTail
	}
	return t, nil
}
