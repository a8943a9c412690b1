package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A LogWriter writes one transaction log. It can't be used after an error.
type LogWriter struct {
	f     *os.File
	w     *bufio.Writer
	head  [12]byte
	bytes int64
}

// CreateLog creates the log whose first transaction is zxid, in a dataDir. It replaces an existing log of that name,
// which can't hold a complete record.
func CreateLog(dir string, zxid int64) (*LogWriter, error) {
	f, err := CreateFile(LogPath(dir, zxid))
	if err != nil {
		return nil, fmt.Errorf("begin a log: %w", err)
	}
	l := &LogWriter{f: f, w: bufio.NewWriterSize(f, 256<<10)}
	head := binary.BigEndian.AppendUint32(nil, logMagic)
	head = jute.AppendLong(jute.AppendInt(head, 2), 0)
	if _, err := l.w.Write(head); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a log: %w", err), f.Close())
	}
	return l, nil
}

// Append adds a transaction. It may stay buffered until Sync.
func (l *LogWriter) Append(record []byte) error {
	binary.BigEndian.PutUint64(l.head[:], uint64(adler32.Checksum(record)))
	binary.BigEndian.PutUint32(l.head[8:], uint32(len(record)))
	l.bytes += int64(len(l.head) + len(record) + 1)
	_, err := l.w.Write(l.head[:])
	if err == nil {
		_, err = l.w.Write(record)
	}
	if err == nil {
		err = l.w.WriteByte(logMark)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", l.f.Name(), err)
	}
	return nil
}

// Bytes returns the number of bytes appended.
func (l *LogWriter) Bytes() int64 { return l.bytes }

// Sync makes all appended transactions durable.
func (l *LogWriter) Sync() error {
	if err := errors.Join(l.w.Flush(), l.f.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", l.f.Name(), err)
	}
	return nil
}

// Close makes the log durable and closes it.
func (l *LogWriter) Close() error { return errors.Join(l.Sync(), l.f.Close()) }

// A SnapshotWalk writes a snapshot of a live state in steps, while the state changes in between. The snapshot is fuzzy
// like Apache's: the log holds the changes after the zxid in its name.
type SnapshotWalk struct {
	s       *State
	w       snapshotWriter
	Zxid    int64 // the zxid in the snapshot's name
	ids     map[*ACL]int64
	at, end int
}

// Walk begins a snapshot. The state must not change during a call of Walk, Step or Finish.
func (s *State) Walk() *SnapshotWalk {
	s.walks++
	k := &SnapshotWalk{s: s, Zxid: s.Zxid, ids: map[*ACL]int64{s.open: openACL}, end: len(s.order)}
	k.w.sum = adler32.New()
	b := binary.BigEndian.AppendUint32(nil, snapshotMagic)
	b = jute.AppendLong(jute.AppendInt(b, 2), -1)
	b = jute.AppendInt(b, int32(len(s.Sessions)))
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		b = jute.AppendInt(jute.AppendLong(b, id), s.Sessions[id])
	}
	b = jute.AppendInt(b, int32(len(s.acls)))
	for _, encoded := range slices.Sorted(maps.Keys(s.acls)) {
		id := int64(len(k.ids))
		k.ids[s.acls[encoded]] = id
		b = append(jute.AppendLong(b, id), encoded...)
	}
	k.w.buf = b
	return k
}

// walkBytes is how much a step collects; the last znode may exceed it.
const walkBytes = 256 << 10

// Step collects some znodes, and reports whether there are more.
func (k *SnapshotWalk) Step() (more bool) {
	for ; k.at < k.end && len(k.w.buf) < walkBytes; k.at++ {
		z := k.s.order[k.at]
		if z.gone || k.s.nodes[z.Path] != z {
			continue
		}
		id, ok := k.ids[z.ACL]
		if !ok {
			id = missingACL
		}
		k.w.buf = jute.AppendBuffer(jute.AppendString(k.w.buf, z.Path), z.Data)
		k.w.buf = z.Stat.append(jute.AppendLong(k.w.buf, id))
	}
	return k.at < k.end
}

// missingACL is the id of an ACL that was added after the list was written: the log has it.
const missingACL = 1 << 40

// Flush writes what Step has collected. The state may change meanwhile.
func (k *SnapshotWalk) Flush(w io.Writer) error {
	k.w.w = w
	return k.w.flush()
}

// Finish returns the end of the file, which holds Apache's digest of the current tree. Flush must be called after the
// last Step and before Finish.
func (k *SnapshotWalk) Finish() []byte {
	k.s.walks--
	b := k.seal(jute.AppendString(nil, "/"), 0)
	sealed := len(b)
	b = jute.AppendInt(jute.AppendLong(b, k.s.Zxid), DigestVersion)
	return k.seal(binary.BigEndian.AppendUint64(b, k.s.digest), sealed)
}

// seal appends the checksum of everything before it, including b[from:].
func (k *SnapshotWalk) seal(b []byte, from int) []byte {
	k.w.sum.Write(b[from:])
	at := len(b)
	b = jute.AppendString(jute.AppendLong(b, int64(k.w.sum.Sum32())), "/")
	k.w.sum.Write(b[at:])
	return b
}

// Abandon ends a walk that won't be finished.
func (k *SnapshotWalk) Abandon() { k.s.walks-- }

// LogPath returns the path of the log in a dataDir whose first transaction is zxid.
func LogPath(dir string, zxid int64) string {
	return filepath.Join(dir, Version2, fmt.Sprintf("log.%x", zxid))
}

// SnapshotPath returns the path of the snapshot of a zxid in a dataDir.
func SnapshotPath(dir string, zxid int64) string {
	return filepath.Join(dir, Version2, fmt.Sprintf("snapshot.%x", zxid))
}

// Purge removes the snapshots before the one of zxid, and the logs that only they need. It removes only files for which
// own returns true. The snapshot of zxid must be durable under its name.
func Purge(dir string, zxid int64, own func(path string) bool) error {
	return purge(dir, func(snapshots, logs []numbered) (old []numbered) {
		for i, l := range logs {
			if i+1 < len(logs) && logs[i+1].zxid <= zxid+1 {
				old = append(old, l)
			}
		}
		for _, s := range snapshots {
			if s.zxid < zxid {
				old = append(old, s)
			}
		}
		return old
	}, own)
}

// PurgeOthers removes all snapshots and logs except the snapshot of zxid. It removes only files for which own returns
// true.
func PurgeOthers(dir string, zxid int64, own func(path string) bool) error {
	return purge(dir, func(snapshots, logs []numbered) []numbered {
		for _, s := range snapshots {
			if s.zxid != zxid {
				logs = append(logs, s)
			}
		}
		return logs
	}, own)
}

// purge removes what old chooses.
func purge(dir string, old func(snapshots, logs []numbered) []numbered, own func(path string) bool) error {
	dir = filepath.Join(dir, Version2)
	snapshots, err := list(dir, snapshotZxid)
	if err != nil {
		return err
	}
	logs, err := list(dir, logZxid)
	if err != nil {
		return err
	}
	for _, f := range old(snapshots, logs) {
		if own(f.path) {
			err = errors.Join(err, remove(f.path))
		}
	}
	return errors.Join(err, syncDir(dir))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename renames a file of a dataDir's version-2, durably.
func Rename(dir, from, to string) error {
	dir = filepath.Join(dir, Version2)
	return errors.Join(os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)), syncDir(dir))
}
